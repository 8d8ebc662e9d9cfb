/* Galleries of small pictures, and the note on an image that pointing at one shows. */

import { beside, fileName, find, make, percent } from "./dom.js";

/** Galleries of the images in an album; `tip` shows and hides the note on an image. */
export function makeGalleries(album) {
  const tip = makeTip(album, picture);

  function picture(i) {
    const alt = `${fileName(album.path[i])}: ${album.about(i)}`;
    return make("img", { src: album.thumbnail[i], alt, decoding: "async", loading: "lazy", draggable: false });
  }

  /** A small picture, or the file's name if there is none; its note is shown on hover, focus and tap. */
  function thumb(i, captions) {
    const face = album.thumbnail[i] ? picture(i) : make("span", { class: "file" }, fileName(album.path[i]));
    const button = make("button", { type: "button", class: "thumb", tabindex: -1, "data-dot": i }, face);
    if (captions) button.append(make("span", { class: "caption", "aria-hidden": true }, captions(i)));
    const show = () => tip.show(i, face.getBoundingClientRect(), face.clientWidth < 60);
    button.onpointerenter = (event) => event.pointerType === "mouse" && show();
    button.onfocus = () => button.matches(":focus-visible") && show();
    button.onclick = show;
    button.onpointerleave = button.onblur = () => tip.hide();
    return button;
  }

  /** Fill a gallery: one stop for the tabulator, arrow keys within it. */
  function fill(gallery, images, captions, one = thumb) {
    gallery.replaceChildren(...images.map((i) => one(i, captions)));
    gallery.firstChild?.setAttribute("tabindex", 0);
    gallery.onkeydown = walk;
  }

  return { picture, thumb, fill, tip };
}

/** Go to the picture beside, above or below the present one with an arrow key. */
function walk(event) {
  const all = [...event.currentTarget.children];
  const columns = all.filter((one) => one.offsetTop === all[0].offsetTop).length;
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  const other = by && all[all.indexOf(document.activeElement) + by];
  if (!other) return;
  event.preventDefault();
  document.activeElement.tabIndex = -1;
  other.tabIndex = 0;
  other.focus();
}

/** The note on an image, below a box on the screen or above it. */
function makeTip(album, picture) {
  const box = find("#tip");
  const hide = () => (box.hidden = true);

  function show(i, around, withPicture) {
    const sure = `probability ${percent(album.probability[i])}${album.unsure[i] ? ", unsure" : ""}`;
    const name = make("span", { class: "class" }, album.glyph(album.keys[i]), make("bdi", {}, album.name(i)));
    const path = make("div", { class: "path" }, make("bdi", {}, album.path[i]));
    const image = withPicture && album.thumbnail[i] ? [picture(i)] : [];
    box.replaceChildren(...image, make("div", { class: "text" }, name, make("span", {}, sure)), path);
    (find("dialog[open]") ?? document.body).append(box); // what is outside of an open dialog lies below it
    beside(box, around);
  }

  addEventListener("scroll", hide, { passive: true, capture: true }); // of a dialog, too
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
  return { box, show, hide };
}
