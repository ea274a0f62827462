/** Caches what this process compiles from now on. To be called before the program's modules are imported. */
export function cacheModules(): void;
