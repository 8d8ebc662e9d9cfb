/* Virtual cards: of any number of them only those near the window have their content in the document. */

import { findAll } from "./dom.js";

const NEAR = 1; // windows above and below this one

/** Fill cards that come near and empty those that go away; `still` draws, and keeps what is in view in its place. */
export function makeNear(still = (draw) => draw()) {
  const contents = new WeakMap(); // card → a function that makes what follows its head
  const observer = new IntersectionObserver(follow, { rootMargin: `${100 * NEAR}% 0%` });

  function follow(entries) {
    const changed = entries.filter(({ target, isIntersecting }) => isIntersecting === far(target));
    const turn = ({ target, isIntersecting }) => (isIntersecting ? fill(target) : empty(target));
    if (changed.length) still(() => changed.forEach(turn));
  }

  const far = (card) => card.classList.contains("far");

  function fill(card) {
    if (!far(card)) return;
    card.classList.remove("far");
    card.style.minHeight = "";
    card.append(...contents.get(card)());
  }

  /** Take a card's content out of the document, unless it is being used or its whole view is hidden. */
  function empty(card) {
    if (card.contains(document.activeElement) || !card.offsetParent) return;
    card.style.minHeight = `${card.offsetHeight}px`;
    card.replaceChildren(card.firstChild);
    card.classList.add("far");
  }

  return {
    fill,
    /** Take up a card with its head alone; until it has its content it is as high as the one whose place it takes. */
    add(card, content, before) {
      contents.set(card, content);
      card.classList.add("far");
      if (before) card.style.minHeight = before.style.minHeight;
      if (before) observer.unobserve(before);
      observer.observe(card);
      return card;
    },
    /** Fill the cards of a box that are near now. */
    look(box) {
      for (const card of findAll(".far", box)) {
        const { top, bottom, height } = card.getBoundingClientRect();
        if (height && top < (1 + NEAR) * innerHeight && bottom > -NEAR * innerHeight) fill(card);
      }
    },
  };
}
