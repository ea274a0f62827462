/** Caches what this process compiles from now on. To be called before the program's modules are imported. */
export function cacheModules(): void;
/** Of whoever runs this. Throws where neither HOME nor an account says it. */
export function homeDirectory(): string;
