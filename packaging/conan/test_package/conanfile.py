# SPDX-License-Identifier: MIT
"""The programs of tests/consumer, built against the package that was just made."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class SimplxTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # leaves nothing beside the sources
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        for program in ("consumer", "components"):
            path = os.path.join(self.cpp.build.bindir, program)
            if can_run(self) and os.path.exists(path):
                self.run(path, env="conanrun")
