package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
)

// perCall is how many files one direct call of sha256sum gets: few calls, and far below the limit of a command line.
const perCall = 200

// direct runs sha256sum itself on all files, as the word of truth, and returns its line for each path.
func direct(ctx context.Context, paths []string) (map[string]string, error) {
	lines := make(map[string]string, len(paths))
	for part := range slices.Chunk(paths, perCall) {
		// Zero-terminated lines are not escaped, so the path comes back as it went in.
		out, err := exec.CommandContext(ctx, "sha256sum", append([]string{"--zero", "--"}, part...)...).Output()
		if err != nil {
			return nil, fmt.Errorf("sha256sum: %w", err)
		}
		for line := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
			sum, path, ok := bytes.Cut(line, []byte("  "))
			if !ok {
				return nil, fmt.Errorf("sha256sum printed %q, not a sum and a path", line)
			}
			lines[string(path)] = string(sum)
		}
	}
	return lines, nil
}

// sumOf is the sum in the output of sha256sum for one file. A line for a path with a backslash or a line end begins
// with a backslash.
func sumOf(output []byte) string {
	sum, _, _ := bytes.Cut(bytes.TrimPrefix(output, []byte(`\`)), []byte(" "))
	return string(sum)
}
