package host

import "syscall"

// hugePages asks for pages of 2 MiB where they fit. It is advice: without them everything works the same, slower.
func hugePages(memory []byte) { _ = syscall.Madvise(memory, syscall.MADV_HUGEPAGE) }
