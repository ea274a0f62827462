// Entries of `imports`, and the way from what an entry says to the file that it names (docs/reference/compile.md#imports).

import type { UnresolvedTemplate } from '../../domain/bundle.ts';
import { diagnosticCodes, type DiagnosticCode } from '../../domain/codes.ts';
import type { Range } from '../../domain/diagnostic.ts';
import type { MapNode, Node, PathStep } from '../source/node.ts';
import { printPath, scalarOf } from '../source/node.ts';
import { isDocumentFile } from '../source/source.ts';
import type { Dependency } from './cache.ts';
import { type Files, type LookupResult, templateState } from './files.ts';
import { importsMax } from './limits.ts';
import { type FileRef, isAbsoluteOrUrl, parseSpecifier, resolveBeside, templateFile } from './paths.ts';
import { written } from './strings.ts';
import type { CompileInput } from './types.ts';
import type { LayerFinding } from './variables.ts';

/** What one entry of `imports` says, and where. */
export interface Import {
  readonly text: string;
  readonly range: Range;
  readonly path: string;
}

export interface ImportProblem {
  readonly code: DiagnosticCode;
  readonly message: string;
  readonly hint?: string;
}

/** The entries of `imports`, or of its alias `import` where that is not written. */
export function importsOf(root: MapNode, report: (finding: LayerFinding) => void): Import[] {
  const key = written(root, 'imports') === undefined ? 'import' : 'imports';
  const node = written(root, key);
  if (node === undefined) return [];
  const entries: Import[] = [];
  const add = (item: Node, path: readonly PathStep[]): void => {
    const text = scalarOf(item);
    if (typeof text === 'string') {
      entries.push({ text, range: item.range, path: printPath(path) });
    } else {
      const message = `"${key}" is a string or a list of strings`;
      report({ severity: 'error', code: 'import-invalid', message, range: item.range, path: printPath(path) });
    }
  };
  if (node.kind !== 'seq') {
    add(node, [key]);
    return entries;
  }
  node.items.slice(0, importsMax).forEach((item, index) => add(item, [key, index]));
  if (node.items.length > importsMax) {
    const message = `"${key}" has more than ${importsMax} entries`;
    report({ severity: 'error', code: 'import-invalid', message, range: node.range, path: key });
  }
  return entries;
}

export type Resolved = FileRef | ImportProblem | { readonly neededTemplate: string };

/** The file that an import names, seen from the importing file. */
export function resolveImport(input: CompileInput, from: FileRef, text: string, dependencies: Dependency[]): Resolved {
  if (text.startsWith('@')) return resolveSpecifier(input, text, dependencies);
  if (text.trim() === '') return { code: 'import-invalid', message: 'The import is empty' };
  if (isAbsoluteOrUrl(text)) {
    return {
      code: 'import-not-relative',
      message: `${diagnosticCodes['import-not-relative']}: ${shown(text)}`,
      hint: 'Write the path from the folder of this file, such as ../fragments/base.yaml.',
    };
  }
  return resolveBeside(from, text, input.root) ?? outside(from, text);
}

/** The problem of a path that leaves the tree or the package. */
export function outside(from: FileRef, text: string): ImportProblem {
  const what = from.template === null ? 'the repository' : `the template package ${from.template.name}`;
  const hint = 'Only what lies in it can be used: move the file in, or publish it as a template.';
  return { code: 'import-outside-repository', message: `The path ${shown(text)} leaves ${what}`, hint };
}

function resolveSpecifier(input: CompileInput, text: string, dependencies: Dependency[]): Resolved {
  const parsed = parseSpecifier(text);
  if (parsed === null) {
    return {
      code: 'template-specifier',
      message: `${shown(text)} is not a managed template: @scope/name@version/subpath`,
      hint: 'The version may be left out, the subpath may not; a file whose name begins with @ is imported as ./@name.',
    };
  }
  const { specifier, subpath } = parsed;
  dependencies.push({ kind: 'template', name: specifier, state: templateState(input, specifier) });
  const template = input.templates.get(specifier);
  if (template === undefined) return { neededTemplate: specifier };
  if ('error' in template) return unresolved(template);
  return templateFile(template, subpath);
}

/**
 * What to say where an import names one version and gets another: a directory has the one that lies there. Null where
 * it gets what it names, or names a range or a tag.
 */
export function otherVersion({ template }: FileRef, text: string): string | null {
  if (template === null || !text.startsWith('@') || !/^\d+\.\d+\.\d+(?:[-+]|$)/.test(template.requested)) return null;
  if (template.requested.replace(/\+.*/, '') === template.version.replace(/\+.*/, '')) return null;
  return `${shown(text)} comes from a directory, which has the version ${template.version}`;
}

const reasons: { readonly [error in UnresolvedTemplate['error']]: string } = {
  'unknown-source': 'no template source is configured for it',
  'not-found': 'it does not exist',
  'no-such-version': 'it has no such version',
  'integrity-mismatch': 'what was fetched is not what its integrity says',
  unreachable: 'its source cannot be reached',
  'too-large': 'it is too large',
  corrupt: 'its package cannot be read',
};

function unresolved({ specifier, error, detail }: UnresolvedTemplate): ImportProblem {
  // The detail begins with the name, which stands here already.
  const name = `${specifier.slice(0, specifier.lastIndexOf('@'))}: `;
  const why = detail.startsWith(name) ? detail.slice(name.length) : detail;
  const more = why === '' ? '' : ` (${shown(why).slice(1, -1)})`;
  return { code: 'template-unresolved', message: `The template ${specifier} cannot be used: ${reasons[error]}${more}` };
}

/** What an import or a `file:` says, who says it, and the file that it names. */
export interface Asked {
  readonly from: FileRef;
  readonly text: string;
  readonly ref: FileRef;
}

/** Why a file that an import or `file:` names cannot be read; null where it may be later. */
export function lookUpProblem(
  found: Exclude<LookupResult, { readonly kind: 'file' }>,
  asked: Asked,
  missing: 'import-missing' | 'file-missing',
  files: Files,
): ImportProblem | null {
  const { ref, text } = asked;
  switch (found.kind) {
    case 'needed':
      return null;
    case 'link': {
      const name = found.what === 'symlink' ? 'a symbolic link' : 'a submodule';
      const code = found.what === 'symlink' ? 'symlink-refused' : 'submodule-refused';
      return {
        code,
        message: `${shown(text)} goes through ${found.path}, which is ${name}`,
        hint: 'Commit the file itself.',
      };
    }
    case 'too-large':
      return { code: 'file-too-large', message: `${ref.id} is too large to be read` };
    case 'missing': {
      const isUsable = missing === 'import-missing' ? isDocumentFile : isText;
      return { code: missing, message: `${ref.id} does not exist`, hint: adviceFor(asked, isUsable, files) };
    }
  }
}

const isText = (path: string): boolean => !/\.(?:png|jpe?g)$/i.test(path);

/** What may have been meant by a path that names no file of documents, as it is written there; `isUsable` says what can stand there. */
export function adviceFor({ from, text, ref }: Asked, isUsable: (path: string) => boolean, files: Files): string {
  if (files.has(ref)) return 'Text is loaded with "file:", in a prompt.';
  if (text.includes('\\')) return 'Use "/" between folders; "\\" is an ordinary character.';
  if (files.isFolder(ref)) return 'It is a folder; name a file in it.';
  const isOther = (path: string): boolean =>
    isUsable(path) && !(path === from.path && ref.template?.files === from.template?.files);
  const near = files.nearest(ref, isOther);
  if (near !== undefined) return `Did you mean ${inTemplate(text)?.concat(near) ?? files.textBeside(from, near)}?`;
  if (ref.template === null) return 'Create it, or correct the path, which begins at the folder of this file.';
  return text.startsWith('@')
    ? 'Correct the path behind the version, which begins at the root of the template.'
    : 'The template lacks a file that it needs; import another version of it.';
}

/** What stands before the path in a specifier: `@scope/name@version/`. */
const inTemplate = (text: string): string | undefined => /^@[^/]*\/[^/]*\//.exec(text)?.[0];

/** A path as a message shows it. */
export function shown(text: string): string {
  return JSON.stringify((text.length > 120 ? `${text.slice(0, 120)}…` : text).toWellFormed());
}
