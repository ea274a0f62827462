// `svc version`.

import { readFile } from 'node:fs/promises';
import type { Handler } from './types.ts';

/** The version in package.json, which the daemon of the same checkout reports too. */
export async function ownVersion(): Promise<string> {
  const text = await readFile(new URL('../../../package.json', import.meta.url), 'utf8');
  return String((JSON.parse(text) as { version: unknown }).version);
}

export const versionText = async (): Promise<string> => `svc ${await ownVersion()} (node ${process.versions.node})`;

export const versionCommand: Handler = async ({ screen }) => {
  const version = await ownVersion();
  const text = await versionText();
  screen.emit({ version, node: process.versions.node }, () => text);
  return 0;
};
