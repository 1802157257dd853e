// Package archtest holds the project's architecture as tests: the allowed imports, the only home of each dependency, where clocks and
// chance are forbidden, how long files and functions may grow, which words are not ours or not plain, and whether the documents still
// name things that exist. It has no code to import.
//
// Each rule is a plain function from source to findings. One test runs it over the repository, another over a planted
// violation, so that a rule that has stopped seeing anything fails too.
//
//quern:tests pure
package archtest
