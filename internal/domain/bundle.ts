// A tree of files at one commit, as an adapter read it and compile takes it. Nothing here touches a disk.

/** One entry of the tree. `path` is from the tree root with `/`, such as `.svc/agents/a.yaml`. */
export interface BundleEntry {
  readonly path: string;
  readonly kind: 'file' | 'symlink' | 'submodule';
  /** Content id: the git blob id for git, sha1 of the git blob form for folders. Equal ids mean equal bytes. */
  readonly oid: string;
  /** Absent for a symlink or submodule, and for a file that the source refused as `tooLarge`. */
  readonly bytes?: Uint8Array;
  readonly tooLarge?: true;
}

export interface Bundle {
  /** Everything under `.svc/`, and each file outside it that was asked for and exists. */
  readonly entries: ReadonlyMap<string, BundleEntry>;
  /** Paths outside `.svc/` that were asked for and do not exist. */
  readonly absent: ReadonlySet<string>;
  /** False where the tree has no `.svc/` directory at all, which is not the same as an empty one. */
  readonly hasSvc: boolean;
}

/** A managed template (`@scope/name@version`), resolved by the templates adapter. */
export interface ResolvedTemplate {
  /** `@scope/name@requested`, as compile asked for it. */
  readonly specifier: string;
  readonly name: string;
  readonly requested: string;
  /** The exact version it resolved to; `directory` sources give the version of their package.json, else `0.0.0`. */
  readonly version: string;
  /** `sha512-…` for npm, `dir-sha256-…` for a directory. */
  readonly integrity: string;
  /** Paths from the package root with `/`. */
  readonly files: ReadonlyMap<string, BundleEntry>;
}

/** Why a template could not be resolved; compile turns it into a diagnostic at the import that names it. */
export interface UnresolvedTemplate {
  readonly specifier: string;
  readonly error:
    | 'unknown-source'
    | 'not-found'
    | 'no-such-version'
    | 'integrity-mismatch'
    | 'unreachable'
    | 'too-large'
    | 'corrupt';
  readonly detail: string;
}

/** What a reconcile records, so that it can be explained and repeated. */
export interface TemplateLock {
  readonly [specifier: string]: { readonly version: string; readonly integrity: string };
}
