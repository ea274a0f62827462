// One embedded database server for a whole `node --test` run, with a migrated template that each test file copies, and one
// that starts programs.

import { unpackBrowser } from './browser.ts';
import { programsVariable, startProgramServer } from './programs.ts';
import { type Cluster, clusterVariable, dataDirVariable, prepareDataDir, startCluster } from './postgres.ts';

let cluster: Cluster | undefined;
let prepared: Awaited<ReturnType<typeof prepareDataDir>> | undefined;
let programs: Awaited<ReturnType<typeof startProgramServer>> | undefined;

export async function globalSetup(): Promise<void> {
  // The browser once for all files that open one.
  [cluster, prepared, programs] = await Promise.all([
    startCluster(),
    prepareDataDir(),
    startProgramServer(),
    unpackBrowser(),
  ]);
  // Test files run in processes of their own and inherit the environment.
  process.env[clusterVariable] = cluster.adminUrl;
  process.env[dataDirVariable] = prepared.path;
  process.env[programsVariable] = programs.path;
}

export async function globalTeardown(): Promise<void> {
  await Promise.all([cluster?.stop(), prepared?.remove(), programs?.stop()]);
}
