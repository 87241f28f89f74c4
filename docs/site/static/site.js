// On phones, each row of a table is a card: name the column of each cell. Long names in tables may
// break after their underscores.
for (const table of document.querySelectorAll("table.docutils")) {
  const columns = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, place) => {
      if (place > 0 && columns.length > 2) cell.dataset.column = columns[place];
    });
  }
  for (const name of table.querySelectorAll("code .pre")) {
    const parts = name.textContent.split(/(?<=[_.:/])/);
    name.replaceChildren(...parts.flatMap((part) => [part, document.createElement("wbr")]));
  }
}

// The version switcher. `versions.json` lies beside the folders of all versions. Without a server,
// browsers do not let pages read it; the switcher then shows only the current version.
(async () => {
  const select = document.getElementById("versions");
  const root = new URL(document.documentElement.dataset.content_root, location.href);
  const current = select.dataset.version;
  let labels;
  try {
    const response = await fetch(new URL("../versions.json", root));
    if (!response.ok) return;
    labels = await response.json();
  } catch {
    return;
  }
  select.replaceChildren(...labels.map((label) => new Option(label, label, false, label === current)));
  select.disabled = false;
  select.addEventListener("change", async () => {
    const chosen = new URL(`../${encodeURIComponent(select.value)}/`, root);
    const samePage = new URL(location.href.slice(root.href.length), chosen);
    // The chosen version may not have this page.
    const found = await fetch(samePage, { method: "HEAD" }).catch(() => null);
    location.href = found?.ok ? samePage : chosen;
  });
})();
