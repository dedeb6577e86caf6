// The part of the DOM that view.js needs, to test it without a browser.
// Reads the view's data from standard input and prints the drawn tree, as `draw` in browser.py expects it.
const { readFileSync } = require("node:fs");

class Node {
  constructor(tag) {
    Object.assign(this, { tag, className: "", children: [], attributes: {}, dataset: {}, listeners: {} });
    Object.assign(this, { scrollTop: 0, offsetHeight: 0, clientHeight: 0 });
    this.style = { setProperty: (name, value) => (this.style[name] = value), getPropertyValue: (name) => this.style[name] };
    this.classList = { add: (name) => (this.className += " " + name), toggle: (name, on) => this.toggle(name, on) };
  }
  toggle(name, on) {
    const others = this.className.split(" ").filter((one) => one && one !== name);
    this.className = [...others, ...(on ? [name] : [])].join(" ");
  }
  get lastChild() { return this.children.at(-1); }
  getAttribute(name) { return this.attributes[name] ?? null; }
  getBoundingClientRect() { return { left: 0, right: 0, top: 0, height: 0 }; } // as if nothing had a size
  closest(selector) { return this.matches(selector) ? this : this.parent ? this.parent.closest(selector) : null; }
  set textContent(text) { this.children = text ? [text] : []; }
  get text() { return this.children.map((child) => (child instanceof Node ? child.text : child)).join(""); }
  get scrollHeight() { return 4 + Math.max(0, this.text.length - 1000); } // beyond the box: a descender, or long text
  get offsetTop() { return Number(this.dataset.position); } // as if every token had its own line
  setAttribute(name, value) {
    this.attributes[name] = String(value);
    if (name.startsWith("data-")) this.dataset[name.slice(5)] = String(value);
  }
  append(...nodes) {
    for (const node of nodes) if (node instanceof Node) node.parent = this;
    this.children.push(...nodes.filter((node) => node !== ""));
  }
  appendChild(node) { this.append(node); return node; }
  replaceChildren(...nodes) { this.children = []; this.append(...nodes); }
  addEventListener(type, act) { this.listeners[type] = act; }
  matches(selector) {
    const [, name, word, , value] = selector.match(/^\[([\w-]+)(~?)(="(.*)")?\]$/) || [];
    if (name && word) return (this.attributes[name] || "").split(" ").includes(value);
    if (name) return name in this.attributes && (value === undefined || this.attributes[name] === value);
    return this.className.split(" ").includes(selector.slice(1));
  }
  querySelectorAll(selector) {
    const nodes = this.children.filter((child) => child instanceof Node);
    return nodes.flatMap((node) => [...(node.matches(selector) ? [node] : []), ...node.querySelectorAll(selector)]);
  }
  querySelector(selector) { return this.querySelectorAll(selector)[0] || null; }
  toJSON() {
    const { className, children, attributes, scrollTop, style } = this;
    return { kind: className, children, attributes, scrollTop, style };
  }
}

globalThis.document = { createElement: (tag) => new Node(tag), createElementNS: (_, tag) => new Node(tag) };
globalThis.ResizeObserver = class {
  constructor(act) { this.act = act; }
  observe() { this.act(); }
};
const [data, target, events] = JSON.parse(readFileSync(0, "utf8"));
const element = new Node("div");
element.dataset.target = String(target); // as a browser keeps it
const name = Array.isArray(data) ? "reagentCompare" : "reagentView";
const scripts = process.argv.slice(2).map((path) => readFileSync(path, "utf8")).join("\n");
new Function(scripts + `; return ${name};`)()(element, data);
for (const [selector, index, type] of events) {
  const node = element.querySelectorAll(selector)[index];
  if (type === "toggle") node.open = !node.open;
  for (let at = node; at; at = at.parent) at.listeners[type]?.({ target: node }); // the event bubbles
}
process.stdout.write(JSON.stringify(element));
