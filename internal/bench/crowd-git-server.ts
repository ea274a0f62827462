// A process that stands for many git servers: each of its ports answers every request for a ref with the same commit, and
// the last two kinds of port take connections and say nothing, or a byte now and then. It counts what it is asked.
// Arguments: how many ports of each kind. Prints one JSON line with the ports; `GET /counts` of the first port answers
// `{requests, paths}` since the last time.

import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';

const commit = 'c0ffee'.padEnd(40, '0');

const [answering = 1, swallowing = 0, trickling = 0] = process.argv.slice(2).map(Number);
const line = `${commit} HEAD symref-target:refs/heads/main\n`;
const answer = `${(line.length + 4).toString(16).padStart(4, '0')}${line}0000`;
const type = 'application/x-git-upload-pack-result';
let requests = 0;
const paths = new Set<string>();

function answers(): Server {
  const server = createHttpServer((request, response) => {
    const path = request.url ?? '';
    if (path === '/counts') {
      response.end(JSON.stringify({ requests, paths: paths.size }));
      requests = 0;
      paths.clear();
      return;
    }
    requests += 1;
    paths.add(path);
    request.resume().on('end', () => response.writeHead(200, { 'content-type': type }).end(answer));
  });
  server.keepAliveTimeout = 120_000;
  return server;
}

const dull = (trickles: boolean): Server =>
  createServer((socket) => {
    let timer: NodeJS.Timeout | undefined;
    socket.on('error', () => undefined).on('close', () => clearInterval(timer));
    socket.once('data', () => {
      if (!trickles) return;
      socket.write(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n`);
      timer = setInterval(() => socket.write('1\r\na\r\n'), 200);
    });
  });

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const ports = async (count: number, make: () => Server): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, () => listen(make())));

const said = {
  answering: await ports(answering, answers),
  swallowing: await ports(swallowing, () => dull(false)),
  trickling: await ports(trickling, () => dull(true)),
};
process.stdout.write(`${JSON.stringify(said)}\n`);
