/* What a number means: its words, from the list at the end of the page, beside it on hover, focus and tap. */

import { beside, find } from "./dom.js";

/** Explain whatever names its meaning with data-meaning. */
export function explainNumbers() {
  const box = find("#meaning");
  const hide = () => (box.hidden = true);

  function show(event) {
    const about = event.target.closest?.("[data-meaning]");
    if (!about) return hide();
    box.textContent = find(`#meaning-${about.dataset.meaning}`).textContent;
    return beside(box, about.getBoundingClientRect());
  }

  for (const kind of ["pointerover", "focusin", "click"]) document.addEventListener(kind, show);
  document.addEventListener("focusout", hide);
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
}
