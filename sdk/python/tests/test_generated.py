"""The generated files are current: they follow from the server's OpenAPI document."""

import pathlib
import subprocess
import sys
import unittest


class Generated(unittest.TestCase):
    def test_is_current(self) -> None:
        script = pathlib.Path(__file__).resolve().parents[1] / "generate.py"
        done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
