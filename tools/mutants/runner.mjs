// Runs the tests of one room for Stryker inside its own worker process. A process for each mutant and test file would cost
// half a second each; here the modules of the core are loaded anew for every mutant, in the same process, so that nothing a
// mutant left behind (a cache, a table made at load) is seen by the next. It knows of `node:test` what the core's tests use,
// and refuses the rest, so that no test can pass without having run.

import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire, registerHooks, stripTypeScriptTypes } from 'node:module';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { PluginKind, commonTokens, declareClassPlugin, tokens } from '@stryker-mutator/api/plugin';
import { DryRunStatus, TestStatus, determineHitLimitReached, toMutantRunResult } from '@stryker-mutator/api/test-runner';

const root = process.cwd();
const core = pathToFileURL(join(root, 'internal/core/')).href;
const stand = { test: new URL('./node-test.mjs', import.meta.url).href, assert: new URL('./node-assert.mjs', import.meta.url).href };
const stripped = new Map();
let generation = 0;

registerHooks({
  resolve(specifier, context, next) {
    if (specifier === 'node:test') return { url: stand.test, shortCircuit: true };
    if (specifier === 'node:assert/strict' && context.parentURL !== stand.assert) return { url: stand.assert, shortCircuit: true };
    const found = next(specifier, context);
    return found.url.startsWith(core) ? { ...found, url: `${found.url.split('?')[0]}?${generation}` } : found;
  },
  load(url, context, next) {
    if (!url.startsWith(core)) return next(url, context);
    const path = fileURLToPath(url);
    if (!stripped.has(path)) stripped.set(path, stripTypeScriptTypes(readFileSync(path, 'utf8')));
    return { format: 'module', source: stripped.get(path), shortCircuit: true };
  },
});
createRequire(join(root, 'package.json'))('fast-check').configureGlobal({ endOnFailure: true });

const { collect } = await import(stand.test);
const space = (globalThis.__stryker__ ??= {});

/** Loads test files anew and answers with their tests, each `{ id, file, run }`. */
async function load(files) {
  generation += 1;
  const all = [];
  for (const file of files) {
    const tests = await collect(() => import(pathToFileURL(resolve(file)).href));
    all.push(...tests.map(({ name, run }, index) => ({ id: `${file}#${index} ${name}`, file, run })));
  }
  return all;
}

/** What each test took in the first run, in milliseconds: of all runners, and of those that come after them. */
const spentFile = join(root, '.mutants-spent.json');

class CoreTestRunner {
  static inject = tokens(commonTokens.options);
  #files;
  #slowestMs;
  #spent;

  constructor(options) {
    this.#files = globSync(options.core.testFiles);
    this.#slowestMs = options.core.slowestMs;
  }

  capabilities() {
    return { reloadEnvironment: true };
  }

  async dryRun() {
    space.activeMutant = undefined;
    space.mutantCoverage = { static: {}, perTest: {} };
    space.currentTestId = undefined;
    const tests = [];
    for (const one of await load(this.#files)) {
      space.currentTestId = one.id;
      tests.push(await this.#run(one));
    }
    space.currentTestId = undefined;
    writeFileSync(spentFile, JSON.stringify(Object.fromEntries(tests.map(({ id, timeSpentMs }) => [id, timeSpentMs]))));
    return { status: DryRunStatus.Complete, tests, mutantCoverage: space.mutantCoverage };
  }

  async mutantRun({ activeMutant, hitLimit, testFilter }) {
    Object.assign(space, { activeMutant: activeMutant.id, hitCount: 0, hitLimit, mutantCoverage: { static: {}, perTest: {} } });
    const wanted = testFilter === undefined ? undefined : new Set(testFilter);
    const files = wanted === undefined ? this.#files : this.#files.filter((file) => testFilter.some((id) => id.startsWith(`${file}#`)));
    this.#spent ??= existsSync(spentFile) ? JSON.parse(readFileSync(spentFile, 'utf8')) : {};
    const cost = ({ id }) => this.#spent[id] ?? 0;
    const tests = [];
    try {
      // A test left out for being slow kills nothing: the figure is too low by it, never too high.
      const loaded = (await load(files)).filter((one) => (wanted?.has(one.id) ?? true) && cost(one) <= this.#slowestMs);
      for (const one of loaded.sort((left, right) => cost(left) - cost(right))) {
        const result = await this.#run(one);
        tests.push(result);
        if (result.status === TestStatus.Failed) break;
      }
    } catch (error) {
      tests.push({ id: 'load', name: 'load', timeSpentMs: 0, status: TestStatus.Failed, failureMessage: String(error) });
    }
    const tooOften = determineHitLimitReached(space.hitCount, hitLimit);
    return toMutantRunResult(tooOften ?? { status: DryRunStatus.Complete, tests });
  }

  async #run({ id, file, run }) {
    const start = performance.now();
    const seen = { id, name: id, fileName: file };
    try {
      await run();
      return { ...seen, timeSpentMs: performance.now() - start, status: TestStatus.Success };
    } catch (error) {
      return { ...seen, timeSpentMs: performance.now() - start, status: TestStatus.Failed, failureMessage: String(error).slice(0, 500) };
    }
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.TestRunner, 'core', CoreTestRunner)];
