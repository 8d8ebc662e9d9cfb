/* Virtual cards: of any number of them only those near the window have their content in the document. */

import { findAll } from "./dom.js";

const NEAR = 1; // windows above and below this one

/** Fill cards that come near and empty those that go away; `still` draws, and keeps what is in view in its place. */
export function makeNear(still = (draw) => draw()) {
  const contents = new WeakMap(); // card → a function that makes what follows its head
  const observer = new IntersectionObserver(follow, { rootMargin: `${100 * NEAR}% 0%` });

  /** Where cards are now; one that came and went meanwhile is in the list twice, and its last entry counts. */
  function follow(entries) {
    const now = [...new Map(entries.map(({ target, isIntersecting }) => [target, isIntersecting]))];
    const come = now.filter(([card, close]) => close && far(card)).map(([card]) => card);
    const gone = now.filter(([card, close]) => !close && !far(card)).map(([card]) => card).filter(unused);
    const heights = gone.map((card) => card.getBoundingClientRect().height); // all read first: one layout
    const turn = () => (come.forEach(fill), gone.forEach((card, n) => empty(card, heights[n])));
    if (come.length || gone.length) still(turn);
  }

  const far = (card) => card.classList.contains("far");

  function fill(card) {
    if (!far(card)) return;
    card.classList.remove("far");
    card.style.minHeight = "";
    card.append(...contents.get(card)());
  }

  /** Whether the keyboard is elsewhere; the cards of a view that is hidden stay as they are. */
  const unused = (card) => !card.contains(document.activeElement) && card.offsetParent;

  function empty(card, height) {
    card.style.minHeight = `${height}px`;
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
