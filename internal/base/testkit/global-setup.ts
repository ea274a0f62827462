// One embedded database server for a whole `node --test` run, with a migrated template that each test file copies.

import { unpackBrowser } from './browser.ts';
import { type Cluster, clusterVariable, startCluster } from './postgres.ts';

let cluster: Cluster | undefined;

export async function globalSetup(): Promise<void> {
  // Once for all files that open a browser.
  [cluster] = await Promise.all([startCluster(), unpackBrowser()]);
  // Test files run in processes of their own and inherit the environment.
  process.env[clusterVariable] = cluster.adminUrl;
}

export async function globalTeardown(): Promise<void> {
  await cluster?.stop();
}
