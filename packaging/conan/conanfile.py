# SPDX-License-Identifier: MIT
"""Recipe of the source tree that contains it: conan create packaging/conan."""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load
from conan.tools.layout import basic_layout


class Simplx(ConanFile):
    name = "simplx"
    description = "Transformer blocks written as equations, differentiated by the compiler"
    license = "MIT"
    topics = ("transformer", "automatic-differentiation", "expression-templates", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"io": [True, False], "report": [True, False]}
    default_options = {"io": False, "report": False}
    no_copy_source = True

    @property
    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        numbers = re.findall(r"#define SIMPLX_VERSION_\w+ (\d+)",
                             load(self, os.path.join(self._tree, "include", "simplx", "simplx.hpp")))
        self.version = ".".join(numbers)

    def export_sources(self):
        for pattern in ("include/*", "LICENSE"):
            copy(self, pattern, src=self._tree, dst=self.export_sources_folder)

    def requirements(self):
        self.requires("eigen/[>=3.4 <6]", transitive_headers=True)
        if self.options.io or self.options.report:
            self.requires("nlohmann_json/[>=3.10 <4]", transitive_headers=True)
        if self.options.report:
            self.requires("fmt/[>=9 <13]", transitive_headers=True, transitive_libs=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        basic_layout(self)

    def package_id(self):
        self.info.settings.clear()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        copy(self, "*.hpp", src=os.path.join(self.source_folder, "include"),
             dst=os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "simplx")
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        core = self.cpp_info.components["simplx"]
        core.set_property("cmake_target_name", "simplx::simplx")
        core.set_property("pkg_config_name", "simplx")
        core.requires = ["eigen::eigen"]
        core.bindirs = core.libdirs = []
        core.system_libs = ["pthread"] if self.settings.os == "Linux" else []
        if self.options.io or self.options.report:
            self.cpp_info.components["io"].requires = ["simplx", "nlohmann_json::nlohmann_json"]
        if self.options.report:
            self.cpp_info.components["report"].requires = ["io", "fmt::fmt"]
