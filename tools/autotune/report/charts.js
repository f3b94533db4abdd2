// The charts. Each has a title that says what is seen, a text for screen readers, and its numbers as a table. All are
// drawn again when the reader's colours change, and in dark ink before the page is printed.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const printColours = {text: '#1a1d21', muted: '#555e69', line: '#d4d9df', back: '#ffffff'};
let printing = false;
const ink = (name) => printing && printColours[name] || colour(name);

const drawn = [];  // {canvas, make, chart}: `make` returns the configuration of Chart.js
function draw(entry) {
  if (entry.chart) entry.chart.destroy();
  const config = entry.make();
  config.options = Object.assign({animation: false, maintainAspectRatio: false, responsive: true}, config.options);
  Chart.defaults.color = ink('muted');
  Chart.defaults.borderColor = ink('line');
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 12;
  entry.chart = new Chart(entry.canvas, config);
}
function drawAll() {
  for (const entry of drawn) draw(entry);
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
addEventListener('beforeprint', () => { printing = true; drawAll(); });
addEventListener('afterprint', () => { printing = false; drawAll(); });

// A chart with its caption and its table. `size`: a class of its height.
function figure({id, label, caption, make, table, size}) {
  const canvas = el('canvas', {role: 'img', 'aria-label': label, id});
  drawn.push({canvas, make});
  return el('figure', {}, el('div', {class: 'chart ' + (size || '')}, canvas), el('figcaption', {}, caption),
      table ? el('details', {}, el('summary', {}, 'The numbers of this chart'), table) : null);
}

// One bar for the network: a kernel is as wide as its share of `whole` microseconds. Kernels that would be too narrow
// to see are one part at its end.
function timeBar(kernels, whole, label, choose) {
  const least = 0.004;
  const wide = kernels.filter((k) => k.time && k.time.median_us >= least * whole);
  const narrow = kernels.filter((k) => k.time && k.time.median_us < least * whole);
  const part = (us, name, text, kernel) => {
    const share = us / whole;
    const button = el('button', {type: 'button', class: kernel ? roofClass(kernel.roof_share) : 'none', title: name,
      'aria-label': name, style: {'flex-grow': share}, dataset: kernel ? {task: kernel.task, value: us} : {}},
      el('span', {}, text));
    if (kernel) button.addEventListener('click', () => choose(kernel));
    return button;
  };
  const bar = el('div', {class: 'bar', role: 'group', 'aria-label': label}, wide.map((k) => part(k.time.median_us,
      shortName(k.label) + ' (' + shortId(k.task) + '): ' + timeText(k.time.median_us) + ', ' +
      percentText(k.share) + ' of the time' + (k.roof_share ? ', ' + percentText(k.roof_share) + ' of the roof' : ''),
      percentText(k.share), k)));
  const rest = narrow.reduce((sum, k) => sum + k.time.median_us, 0);
  if (rest > 0) bar.append(part(rest, counted(narrow.length, 'short kernel') + ', together ' + timeText(rest), ''));
  const used = kernels.reduce((sum, k) => sum + (k.time ? k.time.median_us : 0), 0);
  if (used < 0.999 * whole) bar.append(el('span', {class: 'rest', style: {'flex-grow': 1 - used / whole}}));
  return bar;
}

const roofKeys = () => el('ul', {class: 'keys', 'aria-label': 'colours'},
    classes.map((c) => el('li', {}, el('span', {class: 'swatch ' + c.name}), c.text)),
    el('li', {}, el('span', {class: 'swatch none'}), 'roof not known'));

const logTicks = (value) => {
  const exponent = Math.floor(Math.log10(value) + 1e-9);
  const power = Math.abs(value / 10 ** exponent - 1) < 1e-6;
  return power ? (exponent > 5 || exponent < -3 ? value.toExponential(0) : String(Number(value.toPrecision(3)))) : '';
};

// Draws texts at the left ends of the ceilings. Ceilings that are too close to tell apart share one text.
const ceilingTexts = {
  id: 'ceilingTexts',
  afterDatasetsDraw(chart) {
    const {ctx, chartArea, scales: {x, y}} = chart;
    const texts = chart.data.datasets.filter((d) => d.ceiling).map((d) => {
      const slope = d.ceiling.bytes;
      const from = slope ? Math.max(x.min, y.min * 1.15 / slope) : x.min;
      const at = slope ? from * 1.1 : x.min;
      return {text: d.ceiling.text, x: x.getPixelForValue(at), y: y.getPixelForValue(slope ? slope * at : d.ceiling.flops), slope};
    });
    ctx.save();
    ctx.fillStyle = ink('text');
    ctx.font = '12px ' + Chart.defaults.font.family;
    ctx.textBaseline = 'bottom';
    const used = [];
    for (const text of texts) {
      const close = used.find((other) => Math.abs(other.y - text.y) < 14 && Math.abs(other.x - text.x) < 60);
      if (close) close.text += ', ' + text.text;
      else used.push(text);
    }
    const dx = x.getPixelForValue(10) - x.getPixelForValue(1), dy = y.getPixelForValue(10) - y.getPixelForValue(1);
    for (const {text, x: px, y: py, slope} of used) {
      ctx.save();
      ctx.translate(Math.max(px, chartArea.left + 2), py);
      if (slope) ctx.rotate(Math.atan2(dy, dx));
      ctx.textAlign = 'left';
      ctx.fillText(text, 0, -3);
      ctx.restore();
    }
    ctx.restore();
  }
};

// Draws arrows from the hollow dots to the full ones.
const arrows = {
  id: 'arrows',
  beforeDatasetsDraw(chart) {
    const {ctx, scales: {x, y}} = chart;
    ctx.save();
    ctx.strokeStyle = ink('muted');
    for (const dot of chart.data.datasets.filter((d) => d.dots).flatMap((d) => d.data)) {
      if (!dot.from) continue;
      const from = [x.getPixelForValue(dot.from.x), y.getPixelForValue(dot.from.y)];
      const to = [x.getPixelForValue(dot.x), y.getPixelForValue(dot.y)];
      ctx.beginPath();
      ctx.moveTo(...from);
      ctx.lineTo(...to);
      ctx.stroke();
      ctx.beginPath();
      ctx.arc(...from, Math.max(3, dot.r * 0.7), 0, 7);
      ctx.stroke();
    }
    ctx.restore();
  }
};

// The roofline: `dots` are {kernel, x: FLOP per byte, y: GFLOPS, from}. The area of a dot is the kernel's share.
function rooflineFigure({id, ceilings, dots, caption, label}) {
  const table = plainTable('Kernels in the roofline', ['task', 'kernel', 'FLOP/byte', 'GFLOPS', 'before', '% roof', 'bound by'],
      dots.map((d) => [shortId(d.kernel.task), shortName(d.kernel.label), [digits(d.x, 3), d.x], [digits(d.y, 4), d.y],
        d.from ? [digits(d.from.y, 4), d.from.y] : ['–', null], [percentText(d.kernel.roof_share), d.kernel.roof_share], d.kernel.bound || '–']));
  const limits = plainTable('Ceilings, measured on all threads', ['ceiling', 'speed'],
      ceilings.peaks.map((p) => ['multiply-adds of ' + p.type, [rateText(p.gflops, 'GFLOPS'), p.gflops]]).concat(
          ceilings.levels.map((l) => ['copying in ' + (l.level === 'memory' ? 'memory' : l.level +
              ' (' + bytesText(l.capacity_bytes) + ')'), [rateText(l.gbytes_per_second, 'GB/s'), l.gbytes_per_second]])));
  const make = () => {
    const peak = Math.max(...ceilings.peaks.map((p) => p.gflops));
    const xs = dots.flatMap((d) => d.from ? [d.x, d.from.x] : [d.x]), ys = dots.flatMap((d) => d.from ? [d.y, d.from.y] : [d.y]);
    const slow = Math.min(...ceilings.levels.map((l) => l.gbytes_per_second));
    const range = {x0: Math.min(0.25, ...xs) / 1.6, x1: Math.max(2 * peak / slow, ...xs) * 1.6,
      y0: Math.min(...ys, peak / 100) / 2, y1: Math.max(peak, ...ys) * 2};
    const line = (text, limit, dash) => ({type: 'line', label: text, data: limit.flops
        ? [{x: range.x0, y: limit.flops}, {x: range.x1, y: limit.flops}]
        : [{x: range.x0, y: range.x0 * limit.bytes}, {x: peak / limit.bytes, y: peak}],
    ceiling: Object.assign({text}, limit), borderColor: ink('muted'), borderDash: dash, borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0});
    const lines = ceilings.peaks.map((p) => line(p.type + ' ' + rateText(p.gflops, 'GFLOPS'), {flops: p.gflops}, []))
        .concat(ceilings.levels.map((l, i) => line(l.level + ' ' + rateText(l.gbytes_per_second, 'GB/s'),
            {bytes: l.gbytes_per_second}, [[], [8, 3], [4, 3], [2, 3]][i % 4])));
    const points = dots.map((d) => Object.assign({}, d, {r: Math.max(3, 36 * Math.sqrt(d.kernel.share || 0) / 1.6)}));
    return {data: {datasets: [
      {type: 'bubble', label: 'kernels', dots: true, data: points, borderColor: ink('back'), borderWidth: 1,
        backgroundColor: points.map((d) => colour(roofClass(d.kernel.roof_share)))}, ...lines]},
    plugins: [ceilingTexts, arrows],
    options: {
      layout: {padding: {right: 8}},
      scales: {
        x: {type: 'logarithmic', min: range.x0, max: range.x1, title: {display: true, text: 'arithmetic intensity in FLOP per byte'},
          ticks: {callback: logTicks, autoSkip: false, maxRotation: 0}},
        y: {type: 'logarithmic', min: range.y0, max: range.y1, title: {display: true, text: 'speed in GFLOPS'}, ticks: {callback: logTicks, autoSkip: false}}},
      plugins: {legend: {display: false}, tooltip: {filter: (item) => Boolean(item.dataset.dots), callbacks: {
        label: ({raw}) => [shortName(raw.kernel.label) + ' (' + shortId(raw.kernel.task) + ')',
          digits(raw.y, 4) + ' GFLOPS, ' + percentText(raw.kernel.roof_share) + ' of the roof (' + raw.kernel.bound + ')',
          percentText(raw.kernel.share) + ' of the time']}}}}};
  };
  return figure({id, label, caption, make, table: el('div', {}, limits, table), size: 'tall'});
}

// The best time over trials, as steps: `points` are {x: trials, y: us}. `levels`: {us, text} are drawn as dashed lines.
function progressConfig({points, trials, levels}) {
  const unit = Math.max(...points.map((p) => p.y), ...levels.map((l) => l.us)) >= 100 ? {name: 'ms', us: 1000} : {name: 'µs', us: 1};
  return {type: 'line', data: {datasets: [
    {label: 'best so far', data: points.map((p) => ({x: p.x, y: p.y / unit.us})), stepped: true, borderColor: colour('at'),
      backgroundColor: colour('at'), borderWidth: 2, pointRadius: points.length > 60 ? 0 : 2.5},
    ...levels.map((l, i) => ({label: l.text, data: [{x: 0, y: l.us / unit.us}, {x: trials, y: l.us / unit.us}],
      borderColor: i ? colour('far') : ink('muted'), borderDash: i ? [6, 3] : [2, 3], borderWidth: 1.5, pointRadius: 0}))]},
  options: {parsing: false, interaction: {mode: 'nearest', axis: 'x', intersect: false},
    scales: {x: {type: 'linear', min: 0, max: Math.max(trials, 1), title: {display: true, text: 'trials'}, ticks: {precision: 0}},
      y: {beginAtZero: true, grace: '5%', title: {display: true, text: 'time in ' + unit.name}}},
    plugins: {legend: {labels: {boxHeight: 1}}, tooltip: {callbacks: {
      title: (items) => items.length ? 'after ' + counted(items[0].parsed.x, 'trial') : '',
      label: (item) => item.dataset.label + ': ' + timeText(item.parsed.y * unit.us)}}}}};
}
function progressFigure({id, steps, trials, levels, caption, label}) {
  const points = steps.map((s) => ({x: s.trials, y: s.best_us}));
  if (points.length && points[points.length - 1].x < trials) points.push({x: trials, y: points[points.length - 1].y});
  const make = () => progressConfig({points, trials, levels});
  const table = plainTable('Best time over trials', ['after trials', 'best so far'],
      steps.map((s) => [[String(s.trials), s.trials], [timeText(s.best_us), s.best_us]]));
  return figure({id, label, caption, make, table});
}

// An axis of names, none of which is left out. Those that are too long are cut.
const nameAxis = {ticks: {autoSkip: false, callback(value) {
  const text = this.getLabelForValue(value), most = Math.max(8, Math.floor(this.chart.width / 22));
  return text.length > most ? text.slice(0, most - 1) + '…' : text;
}}};

// Horizontal bars of counts.
const countsConfig = (items) => ({type: 'bar', data: {labels: items.map((i) => i.name),
    datasets: [{data: items.map((i) => i.count), backgroundColor: colour('below'), maxBarThickness: 26}]},
  options: {indexAxis: 'y', scales: {x: {beginAtZero: true, ticks: {precision: 0}, title: {display: true, text: 'candidates'}}, y: nameAxis},
    plugins: {legend: {display: false}}}});
function countsFigure({id, items, caption, label, table}) {
  const make = () => countsConfig(items);
  return figure({id, label, caption, make, table, size: 'small'});
}

// Ticks of a logarithmic axis around 1, as far as `far` on both sides, and not too close to one another.
function speedTicks(far) {
  const ticks = [1];
  let last = Math.log(far) * 1.25;
  for (const v of [1000, 500, 200, 100, 50, 20, 10, 5, 3, 2, 1.5, 1.2, 1.1, 1.05, 1.02, 1.01]) {
    if (v > far || Math.min(last - Math.log(v), Math.log(v)) < Math.log(far) / 4) continue;
    ticks.unshift(1 / v);
    ticks.push(v);
    last = Math.log(v);
  }
  return ticks.sort((a, b) => a - b);
}

// Intervals of speedups on a logarithmic axis, one row for each change.
function speedupsFigure({id, changes, caption, label}) {
  const bounds = changes.flatMap((c) => [c.speedup.low, c.speedup.high, c.speedup.median]).filter((v) => v > 0);
  const far = Math.max(1.1, ...bounds.map((v) => Math.max(v, 1 / v)));
  const paint = (c) => colour(c.speedup.verdict === 'faster' ? 'good' : c.speedup.verdict === 'slower' ? 'bad' : 'none');
  const middle = {
    id: 'middle',
    afterDatasetsDraw(chart) {
      const {ctx, chartArea, scales: {x}} = chart;
      ctx.save();
      ctx.strokeStyle = ink('muted');
      ctx.beginPath();
      ctx.moveTo(x.getPixelForValue(1), chartArea.top);
      ctx.lineTo(x.getPixelForValue(1), chartArea.bottom);
      ctx.stroke();
      ctx.fillStyle = ink('text');
      chart.getDatasetMeta(0).data.forEach((bar, i) => {
        if (changes[i].speedup.median) ctx.fillRect(x.getPixelForValue(changes[i].speedup.median) - 1.5, bar.y - 6, 3, 12);
      });
      ctx.restore();
    }
  };
  const make = () => ({type: 'bar', plugins: [middle], data: {
    labels: changes.map((c) => shortName(c.label)),
    datasets: [{data: changes.map((c) => c.speedup.low ? [c.speedup.low, c.speedup.high] : [c.speedup.median, c.speedup.median]),
      backgroundColor: changes.map(paint), barThickness: 8}]},
  options: {indexAxis: 'y', scales: {
    x: {type: 'logarithmic', min: 1 / (far * 1.03), max: far * 1.03, title: {display: true, text: 'times as fast (right: faster)'},
      afterBuildTicks(axis) { axis.ticks = speedTicks(far).map((value) => ({value})); },
      ticks: {callback: (v) => String(Number(v.toPrecision(2 + (v > 1)))), autoSkip: false, maxRotation: 0}},
    y: nameAxis},
  plugins: {legend: {display: false}, tooltip: {callbacks: {label: (item) => {
    const s = changes[item.dataIndex].speedup;
    return timesText(s.median) + ' times as fast' + (s.low ? ' (95 %: ' + timesText(s.low) + ' to ' + timesText(s.high) + ')' : '');
  }}}}}});
  const table = plainTable('Changes', ['task', 'kernel', 'times as fast', 'from', 'to', 'verdict'], changes.map((c) =>
      [shortId(c.task), shortName(c.label), [timesText(c.speedup.median), c.speedup.median], [timesText(c.speedup.low), c.speedup.low],
        [timesText(c.speedup.high), c.speedup.high], c.speedup.verdict]));
  const node = figure({id, label, caption, make, table});
  node.querySelector('.chart').style.setProperty('height', 4.5 + 1.4 * changes.length + 'rem');
  return node;
}
