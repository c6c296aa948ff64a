// Makes the report's page easier to use. Everything can be read without it, and it makes nothing but text of what is in the page.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, text, label) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (label) made.setAttribute("aria-label", label);
    return made;
  };

  // A filter and a switch decide together which rows, cards and tiles are shown.
  const tools = document.getElementById("tools");
  const box = document.getElementById("filter");
  const only = document.getElementById("only-problems");
  const count = document.getElementById("count");
  const items = all("[data-items] > *").map((element) => ({
    element,
    text: element.textContent.toLowerCase(),
    well: element.classList.contains("well"),
  }));
  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { element, text, well } of items) {
      element.hidden = (only.checked && well) || !words.every((word) => text.includes(word));
      if (!element.hidden) shown += 1;
    }
    count.textContent = words.length || only.checked ? `${shown} of ${items.length} entries shown` : "";
  };
  if (tools) {
    tools.hidden = false;
    box.addEventListener("input", apply);
    only.addEventListener("change", apply);
    document.getElementById("unfold").addEventListener("click", (event) => {
      const folds = all("details");
      const open = folds.some((fold) => !fold.open);
      for (const fold of folds) fold.open = open;
      event.target.textContent = open ? "Fold everything" : "Unfold everything";
    });
  }

  // Names in natural order, numbers by their value, "1,234.5 s" and "64 KiB" as well; what is not a number stands last.
  const units = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };
  const number = /^[^\w-]*(-?[\d,]*\.?\d+(?:e[-+]?\d+)?)(?![\w-]*\d)/i;
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = (cell ? cell.dataset.sort ?? cell.textContent : "").trim();
    const found = number.exec(text);
    const unit = units[text.split(" ").pop()] ?? 1;
    return { text, value: found ? unit * parseFloat(found[1].replaceAll(",", "")) : NaN };
  };
  const natural = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => {
    if (!Number.isNaN(a.value) && !Number.isNaN(b.value)) return a.value - b.value || natural.compare(a.text, b.text);
    if (Number.isNaN(a.value) !== Number.isNaN(b.value)) return Number.isNaN(a.value) ? 1 : -1;
    return natural.compare(a.text, b.text);
  };
  for (const table of all("table.sortable")) {
    all("thead th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => ({ row, key: key(row, column) }));
        rows.sort((a, b) => (down ? -1 : 1) * compare(a.key, b.key));
        body.append(...rows.map(({ row }) => row));
      });
    });
  }

  // Commands can be copied, with or without the browser's permission to write to the clipboard.
  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  for (const command of all("pre.typed")) {
    const button = make("button", "Copy", "Copy this command");
    button.type = "button";
    button.className = "copy";
    command.before(button);
    button.addEventListener("click", async () => {
      let copied = true;
      try {
        await navigator.clipboard.writeText(command.textContent.trim());
      } catch {
        select(command);
        copied = document.execCommand("copy");
      }
      button.textContent = copied ? "Copied" : "Selected: press Ctrl+C";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }

  // A link to a finding or to what was measured shows it, even if it is folded away or filtered out.
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!target) return;
    if (tools && target.closest("[hidden]")) {
      box.value = "";
      only.checked = false;
      apply();
    }
    for (let up = target; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    if (target.matches(".finding")) for (const fold of all("details", target)) fold.open = true;
    target.scrollIntoView();
    target.focus({ preventScroll: true });
  };
  addEventListener("hashchange", reveal);
  reveal();

  // The whole cell is pressed, not only the word in it.
  document.addEventListener("click", (event) => {
    const cell = event.target.closest("td.state");
    const link = cell && !event.target.closest("a") && cell.querySelector("a");
    if (link) link.click();
  });
})();
