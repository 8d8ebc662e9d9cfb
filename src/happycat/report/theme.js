/* The choice of light or dark, before anything is painted. */
try {
  document.documentElement.dataset.theme = localStorage.getItem("happycat-theme") || "";
} catch {
  // private window: as the system has it
}
