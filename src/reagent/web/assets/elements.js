/* Elements of the page. All text goes in as text. */

export const at = (id) => document.getElementById(id);

export const make = (tag, text = "", attributes = {}) => {
  const node = Object.assign(document.createElement(tag), { textContent: text });
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};
