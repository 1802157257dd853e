package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/quern-queue/quern/sdk/abi"
)

// maxModuleBytes bounds what Extract and Pack walk over; the pre-scan has its own, lower limit.
const maxModuleBytes = 64 << 20

// Extract gives the bytes of the module's manifest section, without running or checking anything else of it. It fails when the
// module is no WebAssembly, is cut short, or has no manifest or more than one.
func Extract(module []byte) ([]byte, error) {
	var found []byte
	n := 0
	err := sections(module, func(_, _ int, name string, content []byte) {
		if name == abi.ManifestSection {
			found = content
			n++
		}
	})
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, fmt.Errorf("manifest: the module has no section %s; put one in with `quern plugin pack`", abi.ManifestSection)
	case n > 1:
		return nil, fmt.Errorf("manifest: the module has %d sections %s; it must have one", n, abi.ManifestSection)
	}
	return found, nil
}

// Pack gives a copy of the module with this manifest, in place of any that it had. The manifest goes last, as every
// toolchain expects of custom sections.
func Pack(module, manifest []byte) ([]byte, error) {
	if len(manifest) > MaxBytes {
		return nil, fmt.Errorf("manifest: the manifest has %d bytes; at most %d are allowed", len(manifest), MaxBytes)
	}
	if len(module) < 8 {
		return nil, errNoModule
	}
	out := append(make([]byte, 0, len(module)+len(manifest)+32), module[:8]...)
	err := sections(module, func(from, to int, name string, _ []byte) {
		if name != abi.ManifestSection {
			out = append(out, module[from:to]...)
		}
	})
	if err != nil {
		return nil, err
	}
	body := binary.AppendUvarint(nil, uint64(len(abi.ManifestSection)))
	body = append(append(body, abi.ManifestSection...), manifest...)
	return append(binary.AppendUvarint(append(out, 0), uint64(len(body))), body...), nil
}

var errNoModule = errors.New("manifest: this is no WebAssembly module: it does not begin with \\0asm and version 1")

// sections calls visit for every section with its bytes' range; name and content are those of custom sections only.
func sections(module []byte, visit func(from, to int, name string, content []byte)) error {
	if len(module) > maxModuleBytes {
		return fmt.Errorf("manifest: the module has %d bytes; at most %d are read", len(module), maxModuleBytes)
	}
	if len(module) < 8 || string(module[:8]) != "\x00asm\x01\x00\x00\x00" {
		return errNoModule
	}
	for at := 8; at < len(module); {
		from, id := at, module[at]
		size, n := leb(module[at+1:])
		if n == 0 || uint64(size) > uint64(len(module)-at-1-n) {
			return fmt.Errorf("manifest: the section at byte %d is cut short or has a size that is no number", from)
		}
		body := module[at+1+n : at+1+n+int(size)]
		at += 1 + n + int(size)
		if id != 0 {
			visit(from, at, "", nil)
			continue
		}
		length, n := leb(body)
		if n == 0 || uint64(length) > uint64(len(body)-n) {
			return fmt.Errorf("manifest: the custom section at byte %d has a name that does not fit into it", from)
		}
		visit(from, at, string(body[n:n+int(length)]), body[n+int(length):])
	}
	return nil
}

// leb reads an unsigned number of at most 32 bits; n is 0 when there is none.
func leb(b []byte) (v uint32, n int) {
	number, n := binary.Uvarint(b[:min(len(b), 5)])
	if n <= 0 || number > math.MaxUint32 {
		return 0, 0
	}
	return uint32(number), n
}
