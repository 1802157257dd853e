package machine

import (
	"encoding/binary"
)

// finalState is the state in the changing part of a history row, which begins with the reason of the end.
func finalState(final []byte) ([]byte, error) {
	n, size := binary.Uvarint(final)
	if size <= 0 || n > uint64(len(final)-size) {
		return nil, ErrSnapshot
	}
	return final[size+int(n):], nil
}
