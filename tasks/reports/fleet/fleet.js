// A page that lies in a folder grows old: what was proven when it was made is not proven for ever.
(() => {
  const body = document.body, fresh = Number(body.dataset.fresh), now = Date.now() / 1000;
  let late = 0;
  for (const row of document.querySelectorAll("tr[data-at]")) {
    if (now - Number(row.dataset.at) <= fresh) continue;
    late += 1;
    const mark = row.querySelector(".mark");
    mark.textContent = "unproven";
    mark.className = "mark unknown";
  }
  if (!late) return;
  const said = document.getElementById("late");
  said.textContent = `This page is ${Math.round((now - Number(body.dataset.now)) / 3600)} h old. ${late} of the nodes that were proven when it was made are not any more: make it again with prelaunch fleet list.`;
  said.hidden = false;
  const answer = document.querySelector(".answer.pass");
  if (answer) answer.className = "answer unknown";
})();
