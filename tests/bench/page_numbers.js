// Runs the script of the leaderboard page without a browser: a document with just what the script asks for.
// Standard input: {"script": text, "data": {...}, "filters": {...}, "methods": [places]}; standard output: the rows shown.
const input = JSON.parse(require("fs").readFileSync(0, "utf8"));
const node = () => ({
  children: [], style: {}, cells: [], className: "", textContent: undefined, value: "", listeners: {},
  append(...items) { this.children.push(...items); this.cells.push(...items); },
  replaceChildren(...items) { this.children = items; },
  addEventListener(name, listener) { this.listeners[name] = listener; },
  setAttribute() {}, removeAttribute() {},
});
const text = (item) =>
  typeof item === "string" ? item : item.textContent !== undefined ? item.textContent : item.children.map(text).join("");
const body = node();
const elements = {};
const find = (id) => (elements[id] ??= Object.assign(node(), { value: input.filters[id] ?? "" }));
find("data").textContent = JSON.stringify(input.data);
Object.assign(find("board"), { tBodies: [body], tHead: { rows: [node()] } });
globalThis.document = {
  getElementById: find,
  createElement: node,
  createDocumentFragment: node,
  querySelectorAll: () => input.methods.map((place) => ({ value: String(place) })),
};
Object.assign(globalThis, { location: { hash: "", href: "" }, history: { replaceState() {} }, addEventListener() {} });
new Function(input.script)();
const lines = body.children[0].children.map((line) => line.children.map(text));
console.log(JSON.stringify({ rows: lines, status: find("status").textContent }));
