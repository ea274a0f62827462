// A small root file system for tests, made of this machine's own programs and the libraries that they need, and the Node
// of this process as `node`.

import { execFile } from 'node:child_process';
import { copyFile, mkdir, readdir, realpath, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const programs = [
  ...['sh', 'cat', 'ls', 'mkdir', 'rm', 'chmod', 'dirname', 'tar', 'test', 'env', 'touch', 'find', 'git', 'grep', 'id'],
  ...['sleep', 'sha256sum', 'sort', 'xargs', 'head', 'printf', 'true', 'tr'],
];

/** The files that a program is loaded with. */
async function librariesOf(program: string): Promise<string[]> {
  const { stdout } = await run('ldd', [program]).catch(() => ({ stdout: '' }));
  return [...stdout.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map(([, path = '']) => path);
}

/** Makes it in an empty directory; `osRelease` is its /etc/os-release. */
export async function makeRootfs(root: string, osRelease: string): Promise<void> {
  for (const path of ['usr/bin', 'usr/local/bin', 'usr/lib', 'etc/ssl/certs', 'opt', 'var']) {
    await mkdir(join(root, path), { recursive: true });
  }
  await symlink('usr/bin', join(root, 'bin'));
  const paths = new Set<string>();
  for (const name of programs) {
    const { stdout } = await run('/bin/sh', ['-c', 'command -v -- "$1"', 'sh', `/usr/bin/${name}`]).catch(() => ({
      stdout: '',
    }));
    if (stdout.trim() === '') continue;
    const program = await realpath(stdout.trim());
    await copyFile(program, join(root, 'usr/bin', name));
    for (const library of await librariesOf(program)) paths.add(library);
  }
  await copyFile(process.execPath, join(root, 'usr/local/bin/node'));
  for (const library of await librariesOf(process.execPath)) paths.add(library);
  for (const path of paths) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await copyFile(await realpath(path), join(root, path));
  }
  await writeFile(join(root, 'etc/os-release'), osRelease);
  await writeFile(join(root, 'etc/ssl/certs/ca-certificates.crt'), '');
  await writeFile(join(root, 'opt/word'), 'of the image\n');
  if ((await readdir(join(root, 'usr/bin'))).length < 5)
    throw new Error('this machine has too few programs to make one');
}
