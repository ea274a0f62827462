// Mutants of one room of the core, killed by that room's own tests: `make mutants ROOM=core/match`.
const room = process.env.ROOM || 'core/match';
export default {
  testRunner: 'tap',
  tap: { testFiles: [`internal/${room}/**/*.test.ts`], nodeArgs: ['--test-reporter=tap', '-r', '{{hookFile}}', '{{testFile}}'] },
  plugins: ['@stryker-mutator/tap-runner'],
  mutate: [`internal/${room}/**/*.ts`, '!**/*.test.ts', '!**/{fixture,testkit}.ts', '!**/*-testkit.ts'],
  reporters: ['clear-text'],
  coverageAnalysis: 'perTest',
  concurrency: 2,
  // Types are stripped, never compiled: there is no configuration to rewrite.
  tsconfigFile: 'tools/mutants/none.json',
  // `make mutants` stands in a copy already; a second one would have to follow the symbolic links of testdata.
  inPlace: true,
  tempDirName: '.stryker',
  ignorePatterns: ['docs', 'templates', '.github', 'tools'],
  clearTextReporter: { allowColor: false, logTests: false, reportTests: false },
};
