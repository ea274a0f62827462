// What an import or a `file:` names: a path relative to the declaring file, or a file of a managed template
// (docs/reference/compile.md#imports, docs/reference/repositories.md#files-outside).

import { dirname, join, relative } from 'node:path/posix';
import type { ResolvedTemplate } from '../../domain/bundle.ts';

/** A file of the tree or of a template. */
export interface FileRef {
  /** How it is named in diagnostics and memos: its path in the tree, or `@scope/name@version/path`. */
  readonly id: string;
  /** From the root of the tree or of the package. */
  readonly path: string;
  readonly template: ResolvedTemplate | null;
}

export const treeFile = (path: string): FileRef => ({ id: path, path, template: null });
export const templateFile = (template: ResolvedTemplate, path: string): FileRef => ({
  id: `${template.name}@${template.version}/${path}`,
  path,
  template,
});

/** True for what the spec rejects with 'must be a relative path': absolute paths, drive letters and URLs. */
export function isAbsoluteOrUrl(path: string): boolean {
  return path.startsWith('/') || /^[A-Za-z][A-Za-z0-9+.-]*:/.test(path);
}

const leaves = (path: string): boolean => path === '..' || path.startsWith('../');

/**
 * The file that a relative path names beside `from`, or null where it leaves the repository or the package. Of a tree that
 * begins at a directory of the repository, `root`, what lies above it is in the repository, and is named as the tree sees it.
 */
export function resolveBeside(from: FileRef, path: string, root = ''): FileRef | null {
  const target = join(dirname(from.path), path);
  if (from.template !== null) return leaves(target) ? null : templateFile(from.template, target);
  if (!leaves(target)) return treeFile(target);
  const whole = join(root, target);
  return leaves(whole) ? null : treeFile(relative(`/${root}`, `/${whole}`) || '.');
}

/** How `from` names another file of its tree or package: the path that `resolveBeside` finds it by. */
export function pathBeside(from: FileRef, path: string, root = ''): string {
  const place = (one: string): string => join('/', from.template === null ? root : '', one);
  const text = relative(dirname(place(from.path)), place(path));
  // What begins with @ is a template, and with a word and a colon a URL.
  return text.startsWith('@') || isAbsoluteOrUrl(text) ? `./${text}` : text;
}

export interface TemplateSpecifier {
  /** `@scope/name@requested`, the key under which the template is asked for. */
  readonly specifier: string;
  readonly subpath: string;
}

const specifier = /^(@[A-Za-z0-9_~-][A-Za-z0-9._~-]*\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)(?:@([^/@\s][^/]*))?\/(.+)$/;

/** Reads `@scope/name@version/subpath`; the version defaults to `latest` (docs/reference/compile.md#files). Null where it is malformed. */
export function parseSpecifier(text: string): TemplateSpecifier | null {
  const match = specifier.exec(text);
  if (match === null) return null;
  const subpath = join(match[3] ?? '');
  if (
    subpath.startsWith('/') ||
    subpath === '.' ||
    subpath === '..' ||
    subpath.startsWith('../') ||
    subpath.endsWith('/')
  ) {
    return null;
  }
  return { specifier: `${match[1] ?? ''}@${match[2] ?? 'latest'}`, subpath };
}
