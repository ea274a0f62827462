// How tests are named, and what rules are given and answer.

export interface SourceFile {
  /** From the repository root, with `/`. */
  readonly path: string;
  readonly text: string;
}
export interface Violation {
  readonly rule: string;
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

export const isTest = (path: string): boolean => path.endsWith('.test.ts');

/** A test is named after the file that it tests, or after its folder, and says behind it what of that: `<door>.<topic>.test.ts`. */
export function checkTestNames(files: readonly SourceFile[]): Violation[] {
  const paths = new Set(files.map((file) => file.path));
  return files.flatMap(({ path }): Violation[] => {
    const [folder, name] = [path.split('/').slice(0, -1), path.split('/').at(-1) ?? ''];
    // Those beside the rooms are about all of them.
    if (!isTest(path) || folder.length < 2) return [];
    const first = name.split('.')[0] ?? '';
    if (first === folder.at(-1) || paths.has(`${folder.join('/')}/${first}.ts`)) return [];
    const message = `no file is called ${first}.ts: name it ${folder.at(-1)}.<topic>.test.ts, or after what it tests`;
    return [{ rule: 'test-name', path, line: 1, message }];
  });
}
