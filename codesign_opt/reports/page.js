"use strict";

// Sorting: a click (or Enter) on a column's name sorts by it, a second click turns the order round. Missing values stay last.
for (const button of document.querySelectorAll("th [role=button]")) {
  const sort = () => {
    const heading = button.closest("th");
    const body = heading.closest("table").tBodies[0];
    const falling = heading.getAttribute("aria-sort") === "ascending";
    const numeric = heading.classList.contains("number");
    const key = (row) => row.cells[heading.cellIndex].dataset.value;
    const compare = (a, b) => (numeric ? Number(a) - Number(b) : a.localeCompare(b, undefined, { numeric: true }));
    const rows = [...body.rows].sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return falling ? compare(b, a) : compare(a, b);
    });
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
    body.append(...rows);
  };
  button.addEventListener("click", sort);
  button.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    sort();
  });
}

// Hovering over a row marks its points.
for (const row of document.querySelectorAll("tbody tr")) {
  const points = document.querySelectorAll(`[data-row="${row.id.slice("row-".length)}"]`);
  const mark = (near) => points.forEach((point) => point.classList.toggle("near", near));
  row.addEventListener("pointerenter", () => mark(true));
  row.addEventListener("pointerleave", () => mark(false));
}

// Several plots: show the chosen one. Without scripts all of them are on the page.
const chooser = document.querySelector("#chooser");
if (chooser) {
  const figures = [...document.querySelectorAll("figure")];
  const choose = () => figures.forEach((figure, index) => { figure.hidden = index !== chooser.selectedIndex; });
  chooser.parentElement.hidden = false;
  chooser.addEventListener("change", choose);
  choose();
}
