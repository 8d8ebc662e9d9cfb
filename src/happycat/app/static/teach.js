/* Teaching: labelled images, as a folder by path or as files of one class, which are dropped or chosen. */

import { post } from "./api.js";
import { confirmed, toast } from "./dialogs.js";
import { find, make } from "./dom.js";
import { counted } from "./card_parts.js";
import { upload } from "./uploads.js";

export function makeTeach(app) {
  const { store } = app;

  async function start(values) {
    try {
      await post("api/teach", values);
      app.pulse();
    } catch (error) {
      app.problem(error);
    }
  }

  async function sendAndTeach(files, values) {
    try {
      const { kept, refused } = await upload(files, true, find("#taught"));
      find("#taught").textContent = refused.slice(0, 5).join("; ");
      if (!kept) toast("None of the files is an image.", true);
      else await start(values);
    } catch (error) {
      app.problem(error);
    }
  }

  /** Teach files that were dropped onto a class, after a question. */
  async function dropped(files, id) {
    const { label } = store.find(id);
    const details = [make("p", {}, "The model learns them; they stay of this class. Undo takes it back.")];
    const words = files.length === 1 ? `Is this image of ${label}?` : `Are these ${files.length} images of ${label}?`;
    if (await confirmed(words, "Teach", details)) await sendAndTeach(files, { to: id });
  }

  find("#teach-form").onsubmit = (event) => {
    event.preventDefault();
    start({ path: find("#labelled").value });
  };
  find("#teach-files").onsubmit = (event) => {
    event.preventDefault();
    const [name, { files }] = [find("#taught-name").value.trim(), find("#taught-files")];
    if (!name) return toast("Say what the images show: give the name of their class.", true);
    if (!files.length) return toast("Choose some files.", true);
    return sendAndTeach([...files], { name });
  };
  find("#taught-files").onchange = ({ target: { files } }) => {
    find("#taught").textContent = files.length ? counted(files.length, "file") : "";
  };

  return { refresh() {}, dropped };
}
