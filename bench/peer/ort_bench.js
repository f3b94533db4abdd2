// Runs ONNX Runtime, to compare its times and outputs with ours. To install it here: npm install --ignore-scripts
//
//   node ort_bench.js [--threads N] [--seconds S] MODEL...        prints a JSON line per model: min_ms, median_ms, n
//   node ort_bench.js --serve [--threads N] MODEL                 answers each line of standard input by a JSON line:
//        run N                  {"times_ms": [...]}               times N inferences, one by one
//        seconds S              {"times_ms": [...]}               times inferences for S seconds
//        dump DIR               {"outputs": [names]}              computes once, writes DIR/output_i.npy
//        nodes                  {"nodes": [{name, op, min_us}]}   least time of each node (needs --profile); ends
//        quit                                                     ends
//   node ort_bench.js --dump DIR MODEL                            computes once, writes DIR/output_i.npy
//
// --inputs DIR takes the inputs from DIR: input_i.pb (ONNX tensor) or input_i.npy, in the order of the graph's inputs.
// Without it, the inputs are random numbers from a fixed seed. An error is a line {"error": ...}, with exit code 1.
'use strict';
const fs = require('fs');
const os = require('os');
const path = require('path');
const readline = require('readline');

// ---- tensors in files ----------------------------------------------------------------------------------------------

const KINDS = {
  float32: { array: Float32Array, npy: '<f4', onnx: 1 },
  float64: { array: Float64Array, npy: '<f8', onnx: 11 },
  float16: { array: Uint16Array, npy: '<f2', onnx: 10 }, // by their bits
  int32: { array: Int32Array, npy: '<i4', onnx: 6 },
  int64: { array: BigInt64Array, npy: '<i8', onnx: 7 },
};

function kindBy(field, value) {
  const found = Object.entries(KINDS).find(([, kind]) => kind[field] === value);
  if (!found) throw new Error(`element type ${value} is not supported`);
  return found[0];
}

// Returns a typed array over a copy of the bytes, since they need not be aligned.
function typed(kind, bytes) {
  return new KINDS[kind].array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

function readNpy(file) {
  const bytes = fs.readFileSync(file);
  if (bytes.toString('latin1', 1, 6) !== 'NUMPY') throw new Error(`${file} is no .npy file`);
  const wide = bytes[6] >= 2;
  const start = wide ? 12 : 10;
  const end = start + (wide ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8));
  const header = bytes.toString('latin1', start, end);
  if (/'fortran_order': True/.test(header)) throw new Error(`${file} is in Fortran order`);
  const dims = /'shape': \(([^)]*)\)/.exec(header)[1].split(',').filter((d) => d.trim()).map(Number);
  const kind = kindBy('npy', /'descr': '([^']*)'/.exec(header)[1]);
  return { kind, dims, data: typed(kind, bytes.subarray(end)) };
}

function writeNpy(file, tensor) {
  const dims = tensor.dims.length === 1 ? `${tensor.dims[0]},` : tensor.dims.join(', ');
  let header = `{'descr': '${KINDS[tensor.type].npy}', 'fortran_order': False, 'shape': (${dims}), }`;
  header = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + '\n';
  const start = Buffer.alloc(10);
  start.write('\x93NUMPY\x01\x00', 'latin1');
  start.writeUInt16LE(header.length, 8);
  const { buffer, byteOffset, byteLength } = tensor.data;
  fs.writeFileSync(file, Buffer.concat([start, Buffer.from(header, 'latin1'), Buffer.from(buffer, byteOffset, byteLength)]));
}

// Reads an ONNX TensorProto: the fields 1 dims, 2 data_type, 4 float_data, 7 int64_data and 9 raw_data.
function readPb(file) {
  const bytes = fs.readFileSync(file);
  const dims = [], parts = [], varints = [];
  let at = 0, type = 0, raw = null;
  const varint = () => {
    let value = 0n, shift = 0n, byte;
    do {
      byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      shift += 7n;
    } while (byte & 128);
    return BigInt.asIntN(64, value);
  };
  const repeated = (wire, end, into) => {
    if (wire === 0) into.push(varint());
    else while (at < end) into.push(varint());
  };
  while (at < bytes.length) {
    const key = Number(varint()), field = key >> 3, wire = key & 7;
    const length = wire === 2 ? Number(varint()) : wire === 5 ? 4 : wire === 1 ? 8 : 0;
    const end = at + length;
    if (field === 1) repeated(wire, end, dims);
    else if (field === 2) type = Number(varint());
    else if (field === 4) parts.push(bytes.subarray(at, end));
    else if (field === 7) repeated(wire, end, varints);
    else if (field === 9) raw = bytes.subarray(at, end);
    else if (wire === 0) varint();
    if (wire !== 0) at = end;
  }
  const kind = kindBy('onnx', type);
  const data = raw ? typed(kind, raw) : kind === 'int64' ? BigInt64Array.from(varints) : typed(kind, Buffer.concat(parts));
  return { kind, dims: dims.map(Number), data };
}

// ---- the session ---------------------------------------------------------------------------------------------------

// Returns numbers that are uniform in [-1, 1) and the same on every machine (mulberry32).
function randomFloats(count, seed) {
  const data = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    data[i] = ((t ^ (t >>> 14)) >>> 0) / 2147483648 - 1;
  }
  return data;
}

function makeFeeds(ort, session, folder) {
  const feeds = {};
  session.inputNames.forEach((name, i) => {
    if (folder) {
      const npy = path.join(folder, `input_${i}.npy`);
      const { kind, dims, data } = fs.existsSync(npy) ? readNpy(npy) : readPb(path.join(folder, `input_${i}.pb`));
      feeds[name] = new ort.Tensor(kind, data, dims);
      return;
    }
    const { type, shape } = session.inputMetadata[i];
    const dims = shape.map((d) => (typeof d === 'number' && d > 0 ? d : 1));
    const count = dims.reduce((a, b) => a * b, 1);
    const data = type === 'float32' ? randomFloats(count, i + 1) : new KINDS[type].array(count);
    feeds[name] = new ort.Tensor(type, data, dims);
  });
  return feeds;
}

class Peer {
  static async open(model, options, extra) {
    const ort = require('onnxruntime-node');
    const peer = new Peer();
    peer.session = await ort.InferenceSession.create(model, {
      intraOpNumThreads: options.threads,
      interOpNumThreads: 1,
      graphOptimizationLevel: 'all',
      logSeverityLevel: 3,
      ...extra,
    });
    peer.feeds = makeFeeds(ort, peer.session, options.inputs);
    // Later runs write into these tensors, so that they allocate no memory, like our runs.
    peer.results = await peer.session.run(peer.feeds);
    return peer;
  }
  // Runs inferences until `enough(count, seconds)`, and returns the time of each in milliseconds.
  async time(enough) {
    const times = [], start = process.hrtime.bigint();
    for (;;) {
      const a = process.hrtime.bigint();
      await this.session.run(this.feeds, this.results);
      const b = process.hrtime.bigint();
      times.push(Number(b - a) / 1e6);
      if (enough(times.length, Number(b - start) / 1e9)) return times;
    }
  }
  async dump(folder) {
    const outputs = await this.session.run(this.feeds);
    fs.mkdirSync(folder, { recursive: true });
    this.session.outputNames.forEach((name, i) => writeNpy(path.join(folder, `output_${i}.npy`), outputs[name]));
    return this.session.outputNames;
  }
}

// Uses ONNX Runtime's own profiler to find the least time of each node over all runs.
class Profiler {
  constructor() {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ort_profile_'));
    this.settings = { enableProfiling: true, profileFilePrefix: path.join(this.folder, 'profile') };
  }
  // Ends the profile and returns the nodes.
  nodes(peer) {
    peer.session.endProfiling();
    const nodes = new Map();
    for (const event of JSON.parse(fs.readFileSync(path.join(this.folder, fs.readdirSync(this.folder)[0]), 'utf8'))) {
      if (event.cat !== 'Node' || !event.name.endsWith('_kernel_time')) continue;
      const name = event.name.slice(0, -'_kernel_time'.length);
      const known = nodes.get(name);
      if (!known || event.dur < known.min_us) nodes.set(name, { name, op: event.args.op_name, min_us: event.dur });
    }
    fs.rmSync(this.folder, { recursive: true });
    return [...nodes.values()];
  }
}

const say = (object) => console.log(JSON.stringify(object));

function parse(argv) {
  const options = { threads: 1, seconds: 3, models: [] };
  for (let i = 0; i < argv.length; i++) {
    if (argv[i] === '--threads') options.threads = Number(argv[++i]);
    else if (argv[i] === '--seconds') options.seconds = Number(argv[++i]);
    else if (argv[i] === '--inputs') options.inputs = argv[++i];
    else if (argv[i] === '--dump') options.dump = argv[++i];
    else if (argv[i] === '--serve') options.serve = true;
    else if (argv[i] === '--profile') options.profile = true;
    else if (argv[i].startsWith('--')) throw new Error(`unknown option ${argv[i]}`);
    else options.models.push(argv[i]);
  }
  if (options.profile && !options.serve) throw new Error('--profile needs --serve');
  if (!options.models.length) throw new Error('no model; usage: node ort_bench.js [--threads N] [--seconds S] MODEL...');
  return options;
}

async function serve(options) {
  const profiler = options.profile ? new Profiler() : null;
  const peer = await Peer.open(options.models[0], options, profiler ? profiler.settings : {});
  await peer.time((n) => n >= 3); // warms up the caches and threads
  say({ ready: true, inputs: peer.session.inputNames, outputs: peer.session.outputNames });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, argument] = line.trim().split(/\s+/);
    if (command === 'run') say({ times_ms: await peer.time((n) => n >= Number(argument)) });
    else if (command === 'seconds') say({ times_ms: await peer.time((n, s) => s >= Number(argument)) });
    else if (command === 'dump') say({ outputs: await peer.dump(argument) });
    else if (command === 'nodes' && profiler) {
      say({ nodes: profiler.nodes(peer) });
      break;
    } else if (command === 'quit') break;
    else say({ error: `unknown command ${command}` });
  }
}

async function main() {
  const options = parse(process.argv.slice(2));
  if (options.serve) return serve(options);
  for (const model of options.models) {
    const peer = await Peer.open(model, options);
    if (options.dump) {
      say({ model, outputs: await peer.dump(options.dump) });
      continue;
    }
    await peer.time((n) => n >= 3);
    const times = (await peer.time((n, s) => n >= 5 && s >= options.seconds)).sort((a, b) => a - b);
    say({ model, threads: options.threads, n: times.length, min_ms: times[0], median_ms: times[times.length >> 1] });
  }
}

if (require.main === module) {
  main().then(
    () => process.exit(0),
    (error) => {
      say({ error: String(error.message || error).split('\n')[0] });
      process.exit(1);
    }
  );
}
module.exports = { Peer };
