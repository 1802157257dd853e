package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// ETag names a version of what an operator set under a name, for the header If-Match. The digest of what it says keeps apart a version and
// the one of the same number after the name was deleted and set again.
func ETag(version uint32, says []byte) string {
	digest := sha256.Sum256(says)
	return fmt.Sprintf(`"%d-%s"`, version, hex.EncodeToString(digest[:8]))
}
