// Draws the charts: each element with data-chart is filled from its data-url. Without this file the pages are still complete.
(() => {
  "use strict";

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function priceFormatter(places) {
    const format = new Intl.NumberFormat("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
    return (price) => format.format(price).replace("-", "\u2212");
  }

  // Two decimal places, more for small prices.
  function decimalPlaces(price) {
    return price >= 1 ? 2 : Math.min(12, 4 - Math.floor(Math.log10(price || 1)));
  }

  function timeText(seconds) {
    return new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  }

  function layout(decimals) {
    const grid = { color: colour("chart-grid") };
    return {
      autoSize: true,
      layout: {
        attributionLogo: false, // it adds a style element, which our content policy forbids; the footer has the link
        background: { type: "solid", color: colour("panel") },
        textColor: colour("chart-text"),
        fontFamily: getComputedStyle(document.body).fontFamily,
        fontSize: 12,
      },
      grid: { vertLines: { visible: false }, horzLines: grid },
      rightPriceScale: { borderVisible: false, scaleMargins: { top: 0.1, bottom: 0.1 } },
      timeScale: { borderColor: colour("edge"), timeVisible: true, secondsVisible: false, fixLeftEdge: true, fixRightEdge: true },
      crosshair: { horzLine: { labelBackgroundColor: colour("accent") }, vertLine: { labelBackgroundColor: colour("accent") } },
      handleScroll: { mouseWheel: false, vertTouchDrag: false }, // the wheel scrolls the page
      handleScale: { mouseWheel: false },
      localization: { priceFormatter: priceFormatter(decimals), timeFormatter: timeText },
    };
  }

  function equity(chart, data) {
    const line = chart.addSeries(LightweightCharts.AreaSeries, {
      lineWidth: 2,
      lineType: data.source === "marks" ? LightweightCharts.LineType.Simple : LightweightCharts.LineType.WithSteps,
      priceLineVisible: false,
    });
    line.setData(data.points);
    const start = line.createPriceLine({ price: data.points[0].value, lineWidth: 1, lineStyle: 2, axisLabelVisible: false, title: "start" });
    return () => {
      line.applyOptions({
        lineColor: colour("chart-line"),
        topColor: colour("chart-fill-top"),
        bottomColor: colour("chart-fill-bottom"),
      });
      start.applyOptions({ color: colour("muted") });
    };
  }

  function bars(chart, data) {
    const series = chart.addSeries(LightweightCharts.CandlestickSeries, { priceLineVisible: false, lastValueVisible: false });
    series.setData(data.candles);
    const prices = data.lines.map((line) => line.price);
    // The price scale includes the lines as well as the candles, so that stop and target are always visible.
    series.applyOptions({
      autoscaleInfoProvider: (own) => {
        const found = own();
        if (found !== null) {
          found.priceRange.minValue = Math.min(found.priceRange.minValue, ...prices);
          found.priceRange.maxValue = Math.max(found.priceRange.maxValue, ...prices);
        }
        return found;
      },
    });
    const drawn = data.lines.map((line) => {
      const solid = line.kind === "entry" || line.kind === "exit";
      const options = { price: line.price, title: line.kind, lineWidth: 1, lineStyle: solid ? 0 : 2, axisLabelVisible: true };
      return [line.kind, series.createPriceLine(options)];
    });
    const marks = LightweightCharts.createSeriesMarkers(series, [], { autoScale: false });
    return () => {
      const up = colour("gain"), down = colour("loss"), own = colour("accent"), quiet = colour("muted");
      series.applyOptions({ upColor: up, downColor: down, wickUpColor: up, wickDownColor: down, borderVisible: false });
      const colours = { entry: own, exit: colour("text"), stop: down, target: up };
      for (const [kind, line] of drawn) {
        line.applyOptions({ color: colours[kind] ?? quiet, axisLabelColor: colours[kind] ?? quiet, axisLabelTextColor: colour("panel") });
      }
      marks.setMarkers(data.markers.map((mark) => {
        const buys = (mark.kind === "entry") === (data.side === "long");
        return {
          time: mark.time,
          position: buys ? "belowBar" : "aboveBar",
          shape: buys ? "arrowUp" : "arrowDown",
          color: colours[mark.kind],
          text: mark.kind,
        };
      }));
    };
  }

  const kinds = { equity, bars };

  async function draw(place) {
    const answer = await fetch(place.dataset.url, { headers: { accept: "application/json" } });
    if (!answer.ok) return; // the drawing made on the server stays
    const data = await answer.json();
    const drawn = data.points ?? data.candles;
    if (drawn.length === 0) return;
    const decimals = place.dataset.chart === "equity" ? 2 : decimalPlaces(drawn[0].close);
    place.replaceChildren();
    const chart = LightweightCharts.createChart(place, layout(decimals));
    const paint = kinds[place.dataset.chart](chart, data);
    paint();
    chart.timeScale().fitContent();
    dark.addEventListener("change", () => {
      chart.applyOptions(layout(decimals));
      paint();
    });
    place.dataset.drawn = "true";
  }

  document.querySelectorAll("[data-chart]").forEach(draw);
})();
