// What is wrong with how a page is laid out: wider than the window, cells cut off, texts of a figure that overlap, stick
// out or are too small to read, text that is too faint. Run as a function body; returns lists of what was found.
const box = e => e.getBoundingClientRect();
const shown = e => { const b = box(e); return b.width > 0 && b.height > 0 && (!e.checkVisibility || e.checkVisibility()); };
const say = e => `${e.tagName} ${e.textContent.trim().slice(0, 40)}`;
const inside = e => e.closest("svg, .scroll");
const wide = [...document.querySelectorAll("body *")].filter(e => shown(e) && !inside(e) && box(e).right > innerWidth + 1);
const cut = [...document.querySelectorAll("td, th")].filter(e => shown(e) && !inside(e) && e.scrollWidth > e.clientWidth + 1);
const small = [], out = [], overlap = [];
for (const svg of document.querySelectorAll("svg")) {
  if (!shown(svg)) continue;
  const frame = box(svg), texts = [...svg.querySelectorAll("text")].filter(shown);
  texts.forEach((text, i) => {
    const a = box(text);
    if (Math.min(a.width, a.height) < 6.5 && text.textContent.length > 2) small.push(say(text));
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
      out.push(say(text));
    for (const other of texts.slice(i + 1)) {
      const b = box(other), x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Line boxes are taller than letters: neighbouring lines may share a few pixels.
      if (x > 1 && y > 0.35 * Math.min(a.height, b.height)) overlap.push(`${say(text)} / ${say(other)}`);
    }
  });
}
const light = colour => {
  const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = e => {
  for (; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (!/, 0\)$|transparent/.test(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
};
const faint = [...document.querySelectorAll("p, td, th, h1, h2, h3, figcaption, code, button, label, li, svg text:not(.cell)")]
  .filter(e => shown(e) && e.textContent.trim()).filter(e => {
    const style = getComputedStyle(e), a = light(e.matches("svg text") ? style.fill : style.color), b = light(ground(e));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4;
  });
return {width: innerWidth, page: document.documentElement.scrollWidth, wide: wide.map(say), cut: cut.map(say),
  small, out, overlap, faint: faint.map(say), title: document.title,
  unnamed: [...document.querySelectorAll("svg, img, input, select, [tabindex='0'], [role=region]")].filter(e => shown(e) &&
    !(e.querySelector("title") || e.alt || e.getAttribute("aria-label") || e.labels?.length || e.getAttribute("aria-labelledby")
      || e.closest("[aria-hidden=true], label") || e.parentElement.closest("svg"))).map(say)};
