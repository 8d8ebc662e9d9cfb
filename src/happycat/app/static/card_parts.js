/* The parts of a class's card, whether the model has the class or it is proposed. */

import { make, percent, thousands } from "./dom.js";

export const counted = (number, noun) => `${thousands(number)} ${noun}${number === 1 ? "" : "s"}`;

export function button(words, act, kind = "", label = null) {
  const made = make("button", { type: "button", class: kind }, words);
  if (label) made.setAttribute("aria-label", label);
  made.onclick = act;
  return made;
}

/** A share as a bar with its number; nothing is known where it is null. */
export function meter(label, value, hint) {
  const bar = make("i");
  bar.style.width = percent(value ?? 0);
  const track = make("dd", { class: "track", "aria-hidden": "true" }, bar);
  const words = value === null ? "–" : percent(value);
  return make("div", { class: "meter", title: hint }, make("dt", {}, label), make("dd", {}, words), track);
}

/** The known classes that a class resembles most, each with a picture if there is one. */
export function nearest(one, album, picture) {
  const items = one.nearest.map(([id, label, similarity]) => {
    const best = album.best(id);
    const sample = make("span", { class: "sample" });
    if (best !== null && album.thumbnail[best]) sample.append(picture(best));
    return make("li", {}, sample, make("bdi", {}, label), make("span", {}, similarity.toFixed(2)));
  });
  return items.length ? [make("h4", {}, "Nearest known classes"), make("ul", { class: "nearest" }, ...items)] : [];
}
