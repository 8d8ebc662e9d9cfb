/* The keyboard's focus where elements are drawn anew: the same control has it afterwards. */

import { find, findAll } from "./dom.js";

const CONTROLS = ":is(input, button, a, [tabindex]):not(:disabled)";
const mark = (one) => one.id || one.dataset.dot || one.getAttribute("aria-label") || one.textContent;

/** Draw what is within an element; what had the focus there, or what is in its place now, has it again. */
export function keepFocus(root, draw) {
  const held = root.contains(document.activeElement) ? document.activeElement : null;
  const place = held && findAll(CONTROLS, root).indexOf(held);
  draw();
  if (!held || held.isConnected) return;
  const all = findAll(CONTROLS, root);
  const same = all.find((one) => mark(one) === mark(held)) ?? all[Math.min(place, all.length - 1)];
  same?.focus({ preventScroll: true });
}

/** Give the focus to an image's small picture, or else to another of its class, or else to what is shown. */
export function focusImage(i, cls) {
  const view = find(".view:not([hidden])");
  const picture = find(`.thumb[data-dot="${i}"]`, view) ?? find(`[data-drop="${cls}"] .thumb`, view);
  (picture ?? find("#content")).focus();
}
