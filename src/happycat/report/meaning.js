/* What a number means: its words, from the list at the end of the page, beside it on hover, focus and tap. */

import { beside, find } from "./dom.js";

/** Explain whatever names its meaning with data-meaning. */
export function explainNumbers() {
  const box = find("#meaning");
  let about = null; // what is explained
  const hide = () => ((about = null), (box.hidden = true));

  function show(event) {
    about = event.target.closest?.("[data-meaning]");
    if (!about) return hide();
    box.textContent = find(`#meaning-${about.dataset.meaning}`).textContent;
    return beside(box, about.getBoundingClientRect());
  }

  /** What has the focus is often scrolled to, and stays explained. */
  function follow() {
    if (about && about === document.activeElement) beside(box, about.getBoundingClientRect());
    else hide();
  }

  for (const kind of ["pointerover", "focusin", "click"]) document.addEventListener(kind, show);
  document.addEventListener("focusout", hide);
  addEventListener("scroll", follow, { passive: true });
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
}
