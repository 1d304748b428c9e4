"""Where the sources lie and which files travel with them; everything else is in pyproject.toml."""

from setuptools import find_namespace_packages, setup

setup(
    package_dir={"": "core"},
    # Namespace search: folders of data only (kernels, scenes) need no __init__.py of their own.
    packages=find_namespace_packages("core", include=["runnel", "runnel.*"]),
    package_data={
        "runnel": ["py.typed"],
        "runnel.kernels": ["*.cl"],
        "runnel.scenes": ["*.toml", "*.json", "meshes/*.obj", "meshes/*.png"],
    },
    include_package_data=False,
)
