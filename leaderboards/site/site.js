// Draws the charts and lets the tables sort, each when it is first seen. Texts of a board come in
// JSON and in cells alone, and nothing here makes markup of them.
"use strict";
(() => {
  const [INK, ON_DARK] = INK_BY_THEME;
  const theme = matchMedia("(prefers-color-scheme: dark)");

  function specification(figure) {
    const own = JSON.parse(figure.querySelector("script").textContent);
    const json = JSON.stringify(own);
    return theme.matches ? JSON.parse(json.replaceAll(JSON.stringify(INK), JSON.stringify(ON_DARK))) : own;
  }

  function draw(figure) {
    const line = "#80808066";
    const ink = theme.matches ? "#e6e6e6" : "#1a1a1a";
    const config = {
      background: "transparent",
      view: { stroke: null },
      axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line },
      legend: { labelColor: ink, titleColor: ink },
      title: { color: ink },
    };
    const actions = { export: { svg: true, png: true }, source: false, compiled: false, editor: false };
    // `ast`: expressions are interpreted, so that the page may forbid code made from texts.
    const how = { mode: "vega-lite", renderer: "svg", ast: true, actions, config };
    const named = () => figure.querySelector(".vega summary")?.setAttribute("aria-label", "Save this chart");
    vegaEmbed(figure.querySelector(".vega"), specification(figure), how).then(named).catch((error) => {
      figure.querySelector(".vega").textContent = `This chart cannot be drawn here (${error.message}).`;
    });
  }

  async function sort(table) {
    const { default: DataTable } = await window.sorting;
    const long = table.tBodies[0].rows.length > 10;
    const more = table.querySelector("th.more") !== null;
    const layout = { topStart: null, topEnd: long ? "search" : null, bottomStart: null, bottomEnd: null };
    if (more) layout.topStart = { buttons: [{ extend: "colvis", text: "Columns" }] };
    new DataTable(table, {
      paging: false,
      info: false,
      order: [],
      autoWidth: false,
      layout,
      columnDefs: [{ targets: "more", visible: false }],
    });
  }

  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      target.matches("figure") ? draw(target) : sort(target);
    }
  }, { rootMargin: "600px" });

  function open() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let one = target; one; one = one.parentElement) if (one.matches("details")) one.open = true;
    const own = target.querySelector(":scope > details");
    if (own) own.open = true;
    target.scrollIntoView();
  }

  function paint() {
    document.documentElement.classList.toggle("dark", theme.matches);
  }

  paint();
  theme.addEventListener("change", () => {
    paint();
    document.querySelectorAll("figure.chart").forEach((one) => one.querySelector(".vega svg") && draw(one));
  });
  document.querySelectorAll("figure.chart, table.grid").forEach((one) => seen.observe(one));
  addEventListener("hashchange", open);
  open();
})();
