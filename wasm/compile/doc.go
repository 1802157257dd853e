// Package compile turns a scanned and instrumented module into machine code without risk for the process that serves.
//
// Compiling cannot be interrupted, and there are modules of some kilobytes that take minutes or gigabytes. So a child process
// does it, which is this same binary (its hidden subcommand calls Child): under a limit of CPU time, of address space and of
// wall time, one at a time, with an empty environment. It leaves the machine code in a cache directory, from where the parent
// takes it in 0.1 ms (a small module) to 100 ms (one of Go). The parent itself never compiles: code that is not in the cache,
// whatever the reason (a new version of the engine, another processor), is a miss and goes to a child.
//
// Each module has a directory of its own below the cache's, named by its sha256. An entry that is damaged is an error
// to the engine, which leaves it there; here its directory is removed and the module compiled again.
//
// The limits of CPU and address space are those of Linux. Elsewhere a child has the limit of wall time only; a module can then
// take memory until the system ends some process, which need not be the child. Modules must have passed the pre-scan in
// any case: the parent decodes what it loads.
package compile
