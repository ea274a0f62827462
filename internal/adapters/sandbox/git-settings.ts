// Settings of a repository of ours, written as git writes them: one write, where `git config` is a program for each.

import { appendFile } from 'node:fs/promises';
import { join } from 'node:path/posix';

export interface Section {
  readonly section: string;
  /** Of a branch or remote. */
  readonly name?: string;
  readonly settings: Readonly<Record<string, string>>;
}

/** Adds to the settings of the repository whose work tree is `stage`. A later one counts. */
export async function addSettings(stage: string, sections: readonly Section[]): Promise<void> {
  if (sections.length === 0) return;
  await appendFile(join(stage, '.git/config'), sections.map(sectionText).join(''));
}

function sectionText({ section, name, settings }: Section): string {
  const head = name === undefined ? section : `${section} "${name.replace(/["\\]/g, '\\$&')}"`;
  const lines = Object.entries(settings).map(([key, value]) => `\t${key} = "${quoted(value)}"\n`);
  return `[${head}]\n${lines.join('')}`;
}

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\t': '\\t', '\b': '\\b' };
const quoted = (value: string): string =>
  value.replace(/["\\]/g, '\\$&').replace(/[\n\t\b]/g, (char) => escapes[char] ?? char);
