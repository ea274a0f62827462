// The bare server that starting is held against: its database, one connection to it, and a port. Started by bench/idle as
// a program of its own: `node start-reference.ts <data directory>`; prints its port.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { startEmbedded } from '../adapters/postgres/postgres.ts';
import { silent } from '../base/testkit/postgres.ts';

const embedded = await startEmbedded({ dataDir: process.argv[2] ?? '', log: silent });
const client = new pg.Client({ connectionString: embedded.url });
await client.connect();
await client.query('select 1');
const server = createServer((_, response) => response.end('{}'));
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
process.once('SIGTERM', () => {
  server.close();
  void client
    .end()
    .then(() => embedded.stop())
    .then(() => process.exit(0));
});
