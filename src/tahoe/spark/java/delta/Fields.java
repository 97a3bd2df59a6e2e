package delta;

import java.lang.reflect.Field;

/** Fields of Spark's objects that nothing but reflection reaches. */
public class Fields {
  private Fields() { }

  /** The field that an object reads by a name: its own class may have it, or any above, which may be others in other versions of Spark. */
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
