package delta;

import java.lang.reflect.Field;

/** Reflective access to fields of Spark's objects. */
public class Fields {
  private Fields() { }

  /** The field of an object, from its class or the nearest superclass that has it; which one differs between Spark versions. */
  public static Field of(Object object, String name) throws NoSuchFieldException {
    for (Class holder = object.getClass(); holder != null; holder = holder.getSuperclass()) {
      Field[] fields = holder.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (!fields[i].getName().equals(name)) continue;
        fields[i].setAccessible(true);
        return fields[i];
      }
    }
    throw new NoSuchFieldException(object.getClass().getName() + "." + name);
  }
}
