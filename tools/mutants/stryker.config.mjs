// Mutants of one room of the core, killed by that room's own tests: `make mutants ROOM=core/match`, one file of it with
// `FILE=match.ts`. A report as JSON goes to REPORT where it is set.
const room = process.env.ROOM || 'core/match';
const file = process.env.FILE || '**/*.ts';
const report = process.env.REPORT;
export default {
  testRunner: 'core',
  core: { testFiles: `internal/${room}/**/*.test.ts` },
  plugins: [new URL('./runner.mjs', import.meta.url).href],
  mutate: [`internal/${room}/${file}`, '!**/*.test.ts', '!**/{fixture,testkit}.ts', '!**/*-testkit.ts'],
  reporters: report ? ['clear-text', 'json'] : ['clear-text'],
  ...(report ? { jsonReporter: { fileName: report } } : {}),
  coverageAnalysis: 'perTest',
  concurrency: 2,
  // Modules that were loaded for a mutant stay in memory until the process ends.
  maxTestRunnerReuse: 200,
  // A mutant that is slow on a loaded machine is not killed: endless loops are found by counting, not by the clock.
  timeoutMS: 30_000,
  // Types are stripped, never compiled: there is no configuration to rewrite.
  tsconfigFile: 'tools/mutants/none.json',
  // `make mutants` stands in a copy already; a second one would have to follow the symbolic links of testdata.
  inPlace: true,
  tempDirName: '.stryker',
  ignorePatterns: ['docs', 'templates', '.github', 'tools'],
  clearTextReporter: { allowColor: false, logTests: false, reportTests: false },
  warnings: { unknownOptions: false },
};
