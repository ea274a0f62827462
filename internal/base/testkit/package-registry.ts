// A registry of packages for tests without a network: it serves, as npm asks for them, the packages that are installed in this
// checkout, each packed again when it is asked for. Only tests import this.

import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';

export interface PackageRegistry {
  readonly url: string;
  stop(): Promise<void>;
}

interface Installed {
  readonly version: string;
  readonly directory: string;
}

/** `root`: a directory with package-lock.json and node_modules. */
export async function startPackageRegistry(root: string): Promise<PackageRegistry> {
  const packages = installedIn(root);
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? '/', 'http://registry').pathname).slice(1);
    const [, name = path, version] = /^(.+)\/-\/(.+)\.tgz$/.exec(path) ?? [];
    const found = packages.get(name) ?? [];
    const one = found.find((each) => each.version === version);
    if (one !== undefined) {
      const tar = spawn('tar', ['-cf', '-', '--exclude=*/node_modules', '-C', one.directory, '.'], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      tar.stdout.pipe(response);
      tar.on('error', (error) => response.destroy(error));
      return;
    }
    if (version !== undefined || found.length === 0) {
      response.writeHead(404).end('{}');
      return;
    }
    const versions = found.map(({ version: own, directory }) => {
      const document = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as object;
      return [own, { ...document, dist: { tarball: `${url}/${name}/-/${own}.tgz` } }] as const;
    });
    const body = { name, 'dist-tags': { latest: found[0]?.version }, versions: Object.fromEntries(versions) };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function installedIn(root: string): ReadonlyMap<string, readonly Installed[]> {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: { readonly [path: string]: { readonly version: string } };
  };
  const found = new Map<string, Installed[]>();
  for (const [path, { version }] of Object.entries(packages)) {
    const directory = join(root, path);
    if (path === '' || !existsSync(join(directory, 'package.json'))) continue;
    const parent = dirname(path).split('/').at(-1) ?? '';
    const base = path.split('/').at(-1) ?? '';
    const name = parent.startsWith('@') ? `${parent}/${base}` : base;
    found.set(name, [...(found.get(name) ?? []), { version, directory }]);
  }
  return found;
}
