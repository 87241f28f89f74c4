// What lives updates itself by htmx. This says when that fails, and keeps readers undisturbed.
(() => {
  "use strict";
  const touch = document.getElementById("touch");
  const last = new Map();
  // What has no address of its own is known by its place.
  const STOPS = "summary, [tabindex='0']";
  let since = new Date();

  // What was done is said once, and not again when the page is loaded anew.
  if (new URLSearchParams(location.search).has("did")) history.replaceState(null, "", location.pathname);

  const lost = (why) => {
    if (!touch.hidden) return;
    const time = since.toISOString().slice(11, 19);
    touch.textContent = `${why} What you see is from ${time} UTC. Trying again.`;
    touch.hidden = false;
  };

  // All links of a part that lead to one page.
  const links = (part, href) => [...part.querySelectorAll("a[href]")].filter((one) => one.getAttribute("href") === href);

  const isUsed = (part) =>
    part.querySelector("details[open]") !== null || part.contains(document.activeElement);

  document.addEventListener("htmx:sendError", () => lost("Lost touch with the server."));
  document.addEventListener("htmx:timeout", () => lost("The server does not answer."));
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    lost(status === 401 ? "You are signed out: load the page again." : `The server answers ${status}.`);
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, target } = event.detail;
    if (xhr.status !== 200) return;
    since = new Date();
    touch.hidden = true;
    // What has not changed is left alone: no flicker, no lost selection.
    if (last.get(target.id) === xhr.responseText) event.detail.shouldSwap = false;
    last.set(target.id, xhr.responseText);
    const active = document.activeElement;
    target.dataset.focus = target.contains(active) ? active.getAttribute("href") || "" : "";
    target.dataset.turn = links(target, target.dataset.focus).indexOf(active);
    target.dataset.stop = [...target.querySelectorAll(STOPS)].indexOf(active);
    target.dataset.scrolled = [...target.querySelectorAll(".scroll")].map((one) => one.scrollLeft).join();
    target.dataset.open = [...target.querySelectorAll("details")].map((one) => +one.open).join("");
  });
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    // Nobody loses what they are typing.
    if (isUsed(event.detail.target)) event.detail.shouldSwap = false;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const part = event.detail.target;
    [...(part.dataset.open || "")].forEach((open, index) => {
      const one = part.querySelectorAll("details")[index];
      if (one && open === "1") one.open = true;
    });
    (part.dataset.scrolled || "").split(",").forEach((left, index) => {
      const one = part.querySelectorAll(".scroll")[index];
      if (one) one.scrollLeft = Number(left);
    });
    const same = part.dataset.focus ? links(part, part.dataset.focus) : null;
    const again = same ? same[Number(part.dataset.turn)] || same[0] : part.querySelectorAll(STOPS)[Number(part.dataset.stop ?? -1)];
    if (again) again.focus({ preventScroll: true });
  });
})();
