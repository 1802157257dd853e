package main

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// The processor time of a process has that of its children, also of those that have ended.
func TestProcessorTimeOfChildren(t *testing.T) {
	t.Parallel()
	parent := exec.Command("sh", "-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo ended; read wait")
	in, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = parent.Wait()
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	used, err := cpuOf(parent.Process.Pid)
	if err != nil || used < 10*time.Millisecond {
		t.Errorf("a child that counted to 300,000 took %s, %v", used, err)
	}
	if _, err := cpuOf(1 << 30); err == nil {
		t.Error("a process that is not there has a processor time")
	}
	if own, err := cpuOf(os.Getpid()); err != nil || own <= 0 {
		t.Errorf("this process took %s, %v", own, err)
	}
}
