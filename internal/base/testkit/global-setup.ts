// One embedded database server for a whole `node --test` run, with a migrated template that each test file copies.

import { unpackBrowser } from './browser.ts';
import { type Cluster, clusterVariable, dataDirVariable, prepareDataDir, startCluster } from './postgres.ts';

let cluster: Cluster | undefined;
let prepared: Awaited<ReturnType<typeof prepareDataDir>> | undefined;

export async function globalSetup(): Promise<void> {
  // Once for all files that open a browser.
  [cluster, prepared] = await Promise.all([startCluster(), prepareDataDir(), unpackBrowser()]);
  // Test files run in processes of their own and inherit the environment.
  process.env[clusterVariable] = cluster.adminUrl;
  process.env[dataDirVariable] = prepared.path;
}

export async function globalTeardown(): Promise<void> {
  await Promise.all([cluster?.stop(), prepared?.remove()]);
}
