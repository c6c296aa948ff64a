() => {
  const rgb = c => (c.match(/[\d.]+/g) || []).map(Number);
  const lum = ([r, g, b]) => [r, g, b]
    .map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c; }
    return [255, 255, 255]; };
  const seen = [...document.body.querySelectorAll('*')].filter(e => e.checkVisibility()
    && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
  return seen.map(e => { const style = getComputedStyle(e), svg = e instanceof SVGElement;
    const [a, b] = [lum(rgb(svg ? style.fill : style.color)), lum(behind(e))].sort((x, y) => y - x);
    return [(a + .05) / (b + .05), e.tagName + ' ' + e.textContent.slice(0, 40)]; });
}