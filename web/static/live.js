// htmx updates the live part of a page. This reports failures, and keeps focus and open sections.
(() => {
  "use strict";
  const touch = document.getElementById("touch");
  const last = new Map();
  // Elements without a link are identified by their position.
  const STOPS = "summary, [tabindex='0']";
  let since = new Date();

  // Show the confirmation of an action once, not again after a reload.
  if (new URLSearchParams(location.search).has("did")) history.replaceState(null, "", location.pathname);

  const lost = (why) => {
    if (!touch.hidden) return;
    const time = since.toISOString().slice(11, 19);
    touch.textContent = `${why} This page is from ${time} UTC. Retrying.`;
    touch.hidden = false;
  };

  // All links of a part to a page.
  const links = (part, href) => [...part.querySelectorAll("a[href]")].filter((link) => link.getAttribute("href") === href);

  const isUsed = (part) =>
    part.querySelector("details[open]") !== null || part.contains(document.activeElement);

  document.addEventListener("htmx:sendError", () => lost("Connection to the server lost."));
  document.addEventListener("htmx:timeout", () => lost("The server does not respond."));
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    lost(status === 401 ? "You are signed out: reload the page." : `The server returned ${status}.`);
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, target } = event.detail;
    if (xhr.status !== 200) return;
    since = new Date();
    touch.hidden = true;
    // Skip the swap if nothing changed, to avoid flicker and a lost selection.
    if (last.get(target.id) === xhr.responseText) event.detail.shouldSwap = false;
    last.set(target.id, xhr.responseText);
    const active = document.activeElement;
    target.dataset.focus = target.contains(active) ? active.getAttribute("href") || "" : "";
    target.dataset.turn = links(target, target.dataset.focus).indexOf(active);
    target.dataset.stop = [...target.querySelectorAll(STOPS)].indexOf(active);
    target.dataset.scrolled = [...target.querySelectorAll(".scroll")].map((box) => box.scrollLeft).join();
    target.dataset.open = [...target.querySelectorAll("details")].map((details) => +details.open).join("");
  });
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    // Keep the form while a user is typing.
    if (isUsed(event.detail.target)) event.detail.shouldSwap = false;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const part = event.detail.target;
    [...(part.dataset.open || "")].forEach((open, index) => {
      const details = part.querySelectorAll("details")[index];
      if (details && open === "1") details.open = true;
    });
    (part.dataset.scrolled || "").split(",").forEach((left, index) => {
      const box = part.querySelectorAll(".scroll")[index];
      if (box) box.scrollLeft = Number(left);
    });
    const same = part.dataset.focus ? links(part, part.dataset.focus) : null;
    const again = same ? same[Number(part.dataset.turn)] || same[0] : part.querySelectorAll(STOPS)[Number(part.dataset.stop ?? -1)];
    if (again) again.focus({ preventScroll: true });
  });
})();
