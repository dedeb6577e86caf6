/* Tabs: the parts #NAME-panel and #NAME-introduction belong to the tab #NAME-tab. */
import { byId } from "./elements.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

export function createTabs(names) {
  const select = (chosen) => {
    for (const name of names) {
      byId(`${name}-tab`).setAttribute("aria-selected", String(name === chosen));
      byId(`${name}-tab`).tabIndex = name === chosen ? 0 : -1;
      for (const part of ["panel", "introduction"]) byId(`${name}-${part}`).hidden = name !== chosen;
    }
  };
  names.forEach((name, i) => {
    byId(`${name}-tab`).addEventListener("click", () => select(name));
    byId(`${name}-tab`).addEventListener("keydown", ({ key }) => {
      if (!(key in STEPS)) return;
      const next = names[(i + STEPS[key] + names.length) % names.length];
      select(next);
      byId(`${next}-tab`).focus();
    });
  });
  return { select };
}
