// Runs ONNX Runtime in several worker threads at once, each with a session of one thread of its own.
//
//   node ort_workers.js --workers N MODEL        answers each line "seconds S" of standard input by a JSON line,
//        {"streams": [{"times_ms": [...], "seconds": T}]}: the times of the runs of each worker, and how long it ran
//
// The inputs are those of ort_bench.js. An error is a line {"error": ...}, with exit code 1.
'use strict';
const readline = require('readline');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { Peer } = require('./ort_bench.js');

const say = (object) => console.log(JSON.stringify(object));

async function work() {
  const peer = await Peer.open(workerData.model, { threads: 1 }, {});
  await peer.time((n) => n >= 3); // warms up
  parentPort.on('message', async (seconds) => {
    const begin = process.hrtime.bigint();
    const times_ms = await peer.time((n, passed) => passed >= seconds);
    parentPort.postMessage({ times_ms, seconds: Number(process.hrtime.bigint() - begin) / 1e9 });
  });
  parentPort.postMessage('ready');
}

// Resolves with the next message of each worker; an error of one rejects.
function nextOf(workers) {
  return Promise.all(
    workers.map(
      (worker) =>
        new Promise((resolve, reject) => {
          worker.once('error', reject);
          worker.once('message', (message) => {
            worker.removeListener('error', reject);
            resolve(message);
          });
        })
    )
  );
}

async function main() {
  const at = process.argv.indexOf('--workers');
  const words = process.argv.slice(2).filter((word, i) => i + 2 !== at && i + 2 !== at + 1);
  const count = at < 0 ? 8 : Number(process.argv[at + 1]);
  if (words.length !== 1 || !(count > 0)) throw new Error('usage: node ort_workers.js --workers N MODEL');
  const workers = Array.from({ length: count }, () => new Worker(__filename, { workerData: { model: words[0] } }));
  await nextOf(workers);
  say({ ready: true });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, seconds] = line.trim().split(/\s+/);
    if (command !== 'seconds') throw new Error(`unknown command ${command}`);
    const streams = nextOf(workers);
    workers.forEach((worker) => worker.postMessage(Number(seconds)));
    say({ streams: await streams });
  }
}

if (isMainThread) {
  main().then(
    () => process.exit(0),
    (error) => {
      say({ error: String(error.message || error).split('\n')[0] });
      process.exit(1);
    }
  );
} else {
  work();
}
